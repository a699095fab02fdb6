//! An MCP client over HTTP, of either era.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::check;
use super::reply::Reply;

/// How long a call may take where a test says nothing else.
const LIMIT: Duration = Duration::from_secs(150);

/// Which of the protocol's eras a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize`, a session, answers as event streams.
    Legacy,
    /// 2026-07-28: no session, everything in each request.
    Modern,
}

impl Era {
    /// The revision that this client asks for.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// A client with a workspace of its own.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    url: String,
    era: Era,
    name: String,
    token: Option<String>,
    session: Option<String>,
    next: AtomicU64,
    hello: Value,
    capabilities: Value,
}

/// A plain HTTP client.
pub(crate) fn http() -> reqwest::Client {
    // Whichever test comes first installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().expect("a client")
}

impl Client {
    /// A client of the older era.
    pub(crate) async fn connect(url: &str) -> Self {
        Self::connect_as(url, Era::Legacy, "cellgate-tests", None).await
    }

    /// A client of that era that gives that name, with a bearer token where one is needed.
    pub(crate) async fn connect_as(url: &str, era: Era, name: &str, token: Option<&str>) -> Self {
        Self::connect_able(url, (era, name, token), json!({})).await
    }

    /// A client that can do more than others.
    pub(crate) async fn connect_able(
        url: &str,
        (era, name, token): (Era, &str, Option<&str>),
        capabilities: Value,
    ) -> Self {
        let http = http();
        let mut inner = Inner {
            http,
            url: url.to_owned(),
            era,
            name: name.to_owned(),
            token: token.map(str::to_owned),
            session: None,
            next: AtomicU64::new(1),
            hello: Value::Null,
            capabilities,
        };
        inner.greet().await;
        let client = Self(Arc::new(inner));
        if !check::knows_the_schemas() {
            check::learn_the_schemas(&client.request("tools/list", json!({})).await["result"]["tools"]);
        }
        client
    }

    /// The same client, with its session if it has one, at another address: it doesn't greet again.
    pub(crate) fn at(&self, url: &str) -> Self {
        let Inner { http, era, name, token, session, next, hello, capabilities, .. } = &*self.0;
        Self(Arc::new(Inner {
            http: http.clone(),
            url: url.to_owned(),
            era: *era,
            name: name.clone(),
            token: token.clone(),
            session: session.clone(),
            next: AtomicU64::new(next.load(Ordering::Relaxed)),
            hello: hello.clone(),
            capabilities: capabilities.clone(),
        }))
    }

    /// Ends its session.
    pub(crate) async fn end_session(&self) {
        let request = self.0.http.delete(&self.0.url).header("mcp-protocol-version", self.0.era.version());
        let request = request.header("mcp-session-id", self.session().expect("a session"));
        let response = request.send().await.expect("the gateway answers");
        assert!(response.status().is_success(), "{}", response.status());
    }

    /// The HTTP status of a tool's call.
    pub(crate) async fn status_of(&self, tool: &str) -> StatusCode {
        let params = json!({"name": tool, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.0.post("tools/call", &message).send().await.expect("the gateway answers").status()
    }

    /// What the server said about itself: the result of `initialize` or `server/discover`.
    pub(crate) fn hello(&self) -> &Value {
        &self.0.hello
    }

    /// The session that the server gave, if it did.
    pub(crate) fn session(&self) -> Option<&str> {
        self.0.session.as_deref()
    }

    /// Calls a tool and waits for its checked answer.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.call_within(LIMIT, tool, arguments).await
    }

    /// Calls a tool that may take longer, or has to be quicker, than others.
    pub(crate) async fn call_within(&self, limit: Duration, tool: &str, arguments: Value) -> Reply {
        let asked = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let message = tokio::time::timeout(limit, asked).await;
        Reply::new(tool, message.unwrap_or_else(|_| panic!("{tool} {arguments} gave no answer within {limit:?}")))
    }

    /// Starts a call with a progress token and lets it run.
    pub(crate) fn start(&self, tool: &str, arguments: Value) -> Running {
        let (client, tool) = (self.clone(), tool.to_owned());
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, notes) = unbounded_channel();
        let answer = tokio::spawn(async move {
            let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": format!("p{id}")}});
            Reply::new(&tool, client.0.exchange(id, "tools/call", params, &sender).await)
        });
        Running { id, client: self.clone(), answer, notes }
    }

    /// Sends a request and answers the whole JSON-RPC message that came back.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, _notes) = unbounded_channel();
        self.0.exchange(id, method, params, &sender).await
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let response = self.0.post(method, &message).send().await.expect("the gateway answers");
        assert!(response.status().is_success(), "{method}: {}", response.status());
    }
}

impl Inner {
    async fn greet(&mut self) {
        let (sender, _notes) = unbounded_channel();
        if self.era == Era::Modern {
            let message = self.exchange(0, "server/discover", json!({}), &sender).await;
            self.hello = message["result"].clone();
            return;
        }
        let client = json!({"name": self.name, "version": "1"});
        let params =
            json!({"protocolVersion": self.era.version(), "capabilities": self.capabilities, "clientInfo": client});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = self.post("initialize", &message).send().await.expect("the gateway answers");
        self.session = response.headers().get("mcp-session-id").map(|id| id.to_str().expect("plain text").to_owned());
        self.hello = read_answer(response, &json!(0), &sender).await["result"].clone();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let response = self.post("notifications/initialized", &ready).send().await.expect("the gateway answers");
        assert!(response.status().is_success(), "initialized: {}", response.status());
    }

    async fn exchange(&self, id: u64, method: &str, mut params: Value, notes: &UnboundedSender<Value>) -> Value {
        if self.era == Era::Modern {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.era.version());
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": self.name, "version": "1"});
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(method, &message).send().await.expect("the gateway answers");
        read_answer(response, &json!(id), notes).await
    }

    fn post(&self, method: &str, message: &Value) -> RequestBuilder {
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if method != "initialize" {
            request = request.header("mcp-protocol-version", self.era.version());
        }
        if self.era == Era::Modern {
            request = request.header("mcp-method", method);
            let params = &message["params"];
            if let Some(name) = params["name"].as_str().or_else(|| params["taskId"].as_str()) {
                request = request.header("mcp-name", name);
            }
        }
        request
    }
}

/// A call under way.
pub(crate) struct Running {
    id: u64,
    client: Client,
    answer: JoinHandle<Reply>,
    notes: UnboundedReceiver<Value>,
}

impl Running {
    /// Waits for the answer.
    pub(crate) async fn wait(self) -> Reply {
        let answer = tokio::time::timeout(LIMIT, self.answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer within {LIMIT:?}"));
        answer.unwrap_or_else(|fault| std::panic::resume_unwind(fault.into_panic()))
    }

    /// Waits for the answer and all progress notes that came before it.
    pub(crate) async fn wait_with_progress(mut self) -> (Reply, Vec<Value>) {
        let mut notes = Vec::new();
        while let Ok(Some(note)) = tokio::time::timeout(LIMIT, self.notes.recv()).await {
            notes.push(note["params"].clone());
        }
        (self.wait().await, notes)
    }

    /// Waits for a progress note whose message contains `words`.
    pub(crate) async fn progress_with(&mut self, words: &str) -> Value {
        let found = async {
            loop {
                let note = self.notes.recv().await.expect("the call runs on until a note with these words came");
                if note["params"]["message"].as_str().is_some_and(|message| message.contains(words)) {
                    return note["params"].clone();
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.unwrap_or_else(|_| panic!("no progress said {words:?}"))
    }

    /// Whether the answer is there.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_finished()
    }

    /// Takes the call back the way its era does it: a notification, or a closed connection.
    pub(crate) async fn cancel(self) {
        if self.client.0.era == Era::Modern {
            return self.drop_connection();
        }
        let params = json!({"requestId": self.id, "reason": "the test changed its mind"});
        self.client.notify("notifications/cancelled", params).await;
        // There may be one last answer or none; what must not happen is a hanging gateway.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.answer).await;
    }

    /// Closes the connection under the call.
    pub(crate) fn drop_connection(self) {
        self.answer.abort();
    }
}

/// Reads a reply, plain or streamed, up to the answer with that id; other messages are notes.
async fn read_answer(mut response: Response, id: &Value, notes: &UnboundedSender<Value>) -> Value {
    let status = response.status();
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let body = response.text().await.expect("a body");
        return serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status}: no JSON-RPC answer: {body:?}"));
    }
    assert_eq!(status, StatusCode::OK, "an event stream with an error status");
    let mut pending = Vec::new();
    while let Some(chunk) = response.chunk().await.expect("the stream goes on") {
        pending.extend_from_slice(&chunk);
        while let Some(end) = pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8(line).expect("UTF-8");
            let Some(data) = line.trim_end().strip_prefix("data:").filter(|data| !data.trim().is_empty()) else {
                continue;
            };
            let message: Value = serde_json::from_str(data).expect("an event holds JSON");
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
            let _ = notes.send(message);
        }
    }
    panic!("the stream ended without an answer to {id}")
}
