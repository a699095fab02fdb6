//! A bare kernel channel: the least that has to happen to run code on a Jupyter kernel.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{WebSocketStream, client_async};
use uuid::Uuid;

use super::contenders::TOKEN;

const FRAMING: &str = "v1.kernel.websocket.jupyter.org";
/// What a kernel sends before its outputs are subscribed to is lost.
const SUBSCRIBED: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(30);

/// The websocket of a kernel.
pub(crate) struct Channel {
    socket: WebSocketStream<QuickAck>,
    session: String,
}

impl Channel {
    /// Starts a kernel on the server at `url` and connects to it.
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        let request = http.post(format!("{url}/api/kernels")).header("authorization", format!("token {TOKEN}"));
        let kernel: Value = request.body("{}").send().await?.error_for_status()?.json().await?;
        let kernel = kernel["id"].as_str().context("the kernel has an id")?;
        let session = Uuid::new_v4().to_string();
        let address = url.trim_start_matches("http://");
        let mut request =
            format!("ws://{address}/api/kernels/{kernel}/channels?session_id={session}").into_client_request()?;
        request.headers_mut().insert("authorization", HeaderValue::from_str(&format!("token {TOKEN}"))?);
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(FRAMING));
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(request, QuickAck(stream)).await?;
        tokio::time::sleep(SUBSCRIBED).await;
        Ok(Self { socket, session })
    }

    /// Runs code to its end, which is the reply and the kernel being idle again; checks what it evaluates to.
    pub(crate) async fn run(&mut self, code: &str, result: &str) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let value = tokio::time::timeout(LIMIT, self.evaluate(code)).await.context("the kernel answers in time")??;
        let took = begun.elapsed();
        ensure!(value == result, "{code} is {value}");
        Ok(took)
    }

    async fn evaluate(&mut self, code: &str) -> anyhow::Result<Value> {
        let id = Uuid::new_v4().to_string();
        self.socket.send(Message::Binary(self.request(&id, code).into())).await?;
        let (mut value, mut replied, mut idle) = (Value::Null, false, false);
        while !(replied && idle) {
            let frame = self.socket.next().await.context("the kernel's socket stays open")??;
            let Message::Binary(frame) = frame else { continue };
            let [header, parent, _, content] = parts(&frame)?;
            if parent["msg_id"] != id.as_str() {
                continue;
            }
            match header["msg_type"].as_str().unwrap_or_default() {
                "execute_result" => value = content["data"]["text/plain"].clone(),
                "execute_reply" => replied = true,
                "status" => idle |= content["execution_state"] == "idle",
                _ => {}
            }
        }
        Ok(value)
    }

    fn request(&self, id: &str, code: &str) -> Vec<u8> {
        let header = json!({
            "msg_id": id, "msg_type": "execute_request", "username": "bench", "session": self.session,
            "date": jiff::Timestamp::now().to_string(), "version": "5.3",
        });
        let content = json!({
            "code": code, "silent": false, "store_history": true, "user_expressions": {},
            "allow_stdin": false, "stop_on_error": true,
        });
        let parts = ["shell".to_owned(), header.to_string(), "{}".to_owned(), "{}".to_owned(), content.to_string()];
        let mut offset = 8 * (parts.len() as u64 + 2);
        let mut frame = Vec::from((parts.len() as u64 + 1).to_le_bytes());
        frame.extend(offset.to_le_bytes());
        for part in &parts {
            offset += part.len() as u64;
            frame.extend(offset.to_le_bytes());
        }
        frame.extend(parts.iter().flat_map(|part| part.bytes()));
        frame
    }
}

/// Header, parent header, metadata and content of a frame.
fn parts(frame: &[u8]) -> anyhow::Result<[Value; 4]> {
    let number = |index: usize| -> Option<usize> {
        let bytes = frame.get(8 * index..)?.first_chunk::<8>()?;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    };
    // The first part is the channel's name, the first number the count.
    let part = |index: usize| frame.get(number(index + 2)?..number(index + 3)?);
    let [Some(header), Some(parent), Some(metadata), Some(content)] = [0, 1, 2, 3].map(part) else {
        bail!("a frame that can't be read");
    };
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
    Ok([read(header)?, read(parent)?, read(metadata)?, read(content)?])
}

/// A TCP stream that acknowledges at once: without it, Jupyter's next frame waits 40 ms for the acknowledgement.
struct QuickAck(TcpStream);

impl AsyncRead for QuickAck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(&self.0).set_tcp_quickack(true);
        read
    }
}

impl AsyncWrite for QuickAck {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
