//! The websocket of a kernel: TCP, TLS where the server has it, and the framing it agreed to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{ProtocolError, SubProtocolError};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, http};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async_tls_with_config};
use url::{Host, Url};

use super::rest::{REQUEST_LIMIT, Rest, is_id, shorten};
use super::wire::{Framing, V1};
use super::{Cause, JupyterError, kernels};

/// The largest message that is taken from a kernel, in bytes.
const MAX_MESSAGE: usize = 1 << 30;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A server answers the upgrade at once, but a proxy may have to find it first.
const UPGRADE_LIMIT: Duration = Duration::from_secs(30);

/// How long what was sent may go without the acknowledgement of the other machine. That comes from its system at once, however
/// busy the server is: without one the network is gone.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);

/// An open websocket.
pub(super) type Socket = WebSocketStream<MaybeTlsStream<QuickAck>>;

/// Why there is no websocket.
#[derive(Debug)]
pub(super) enum DialError {
    /// It may go better in a moment.
    Again(Cause),
    /// It will not go better by itself.
    Never(Cause),
}

/// Opens the channels of a kernel. `session` is who we are: coming back with the same one, the
/// server hands over what it kept meanwhile.
pub(super) async fn dial(rest: &Rest, kernel: &str, session: &str) -> Result<(Socket, Framing), DialError> {
    if !is_id(kernel) {
        return Err(DialError::Never(Cause::KernelDeleted));
    }
    let mut url = rest.url(["api", "kernels", kernel, "channels"]);
    url.query_pairs_mut().append_pair("session_id", session);
    let opened = match open(rest, &url, Framing::V1).await {
        // A server that doesn't know the framing leaves the header out, which tungstenite refuses.
        Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(SubProtocolError::NoSubProtocol))) => {
            open(rest, &url, Framing::Legacy).await
        }
        opened => opened,
    };
    match opened {
        Ok(opened) => Ok(opened),
        Err(Error::Http(response)) => Err(why_refused(rest, kernel, response.status().as_u16()).await),
        Err(Error::Io(error)) => Err(DialError::Again(Cause::ServerUnreachable(shorten(&error.to_string())))),
        Err(error) => Err(DialError::Again(Cause::ServerUnreachable(shorten(&error.to_string())))),
    }
}

/// A handshake's status alone doesn't tell a missing kernel or a wrong token from a proxy.
async fn why_refused(rest: &Rest, kernel: &str, status: u16) -> DialError {
    match kernels::model(rest, kernel, REQUEST_LIMIT).await {
        Ok(None) => DialError::Never(Cause::KernelDeleted),
        Err(JupyterError::Unauthorized { .. }) => DialError::Never(Cause::Unauthorized),
        Err(JupyterError::Unreachable { reason, .. }) => DialError::Again(Cause::ServerUnreachable(reason)),
        Ok(Some(_)) | Err(_) => {
            let refused = JupyterError::WebSocketRefused { host: rest.host(), status };
            let cause = Cause::ConnectionLost(refused.to_string());
            if status >= 500 { DialError::Again(cause) } else { DialError::Never(cause) }
        }
    }
}

async fn open(rest: &Rest, url: &Url, framing: Framing) -> Result<(Socket, Framing), Error> {
    let request = request(rest, url, framing)?;
    let stream =
        QuickAck(timeout(CONNECT_LIMIT, connect(url, rest.addresses())).await.map_err(|_| late("no answer in time"))??);
    let limits = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let upgrade = client_async_tls_with_config(request, stream, Some(limits), None);
    let (socket, response) =
        timeout(UPGRADE_LIMIT, upgrade).await.map_err(|_| late("no answer to the websocket upgrade in time"))??;
    Ok((socket, agreed(&response)))
}

fn request(rest: &Rest, url: &Url, framing: Framing) -> Result<Request<()>, Error> {
    let mut url = url.clone();
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    // Both are special schemes, between which a URL may change.
    let _ = url.set_scheme(scheme);
    let mut request = url.as_str().into_client_request()?;
    if let Some(authorization) = rest.authorization() {
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
    }
    if framing == Framing::V1 {
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(V1));
    }
    Ok(request)
}

async fn connect(url: &Url, addresses: Option<&[IpAddr]>) -> io::Result<TcpStream> {
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = match url.host() {
        _ if let Some(addresses) = addresses => {
            let addresses: Vec<_> = addresses.iter().map(|address| SocketAddr::from((*address, port))).collect();
            TcpStream::connect(addresses.as_slice()).await?
        }
        Some(Host::Domain(name)) => TcpStream::connect((name, port)).await?,
        Some(Host::Ipv4(address)) => TcpStream::connect((address, port)).await?,
        Some(Host::Ipv6(address)) => TcpStream::connect((address, port)).await?,
        None => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the URL has no host")),
    };
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(stream)
}

fn agreed<T>(response: &Response<T>) -> Framing {
    let protocol = response.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
    if protocol.is_some_and(|protocol| protocol == V1) { Framing::V1 } else { Framing::Legacy }
}

fn late(what: &'static str) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, what))
}

/// A TCP stream that acknowledges at once.
///
/// Tornado leaves Nagle's algorithm on for websockets, so its next small frame waits for our
/// delayed acknowledgement (40 ms). The kernel forgets the option, so every read sets it again.
pub(super) struct QuickAck(TcpStream);

impl QuickAck {
    #[cfg(target_os = "linux")]
    fn acknowledge(&self) {
        // Without it, it is only slower.
        let _ = socket2::SockRef::from(&self.0).set_tcp_quickack(true);
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge(&self) {}
}

impl AsyncRead for QuickAck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        self.acknowledge();
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
