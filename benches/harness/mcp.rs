//! An MCP client with a session (2025-11-25), which the gateway and the Python server both speak.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

const VERSION: &str = "2025-11-25";
const LIMIT: Duration = Duration::from_secs(900);

/// A tool's answer, and the time from the request to its last byte.
pub(crate) struct Answer {
    pub(crate) result: Value,
    pub(crate) took: Duration,
}

/// A client with a session of its own.
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    session: Option<String>,
    next: Cell<u64>,
}

impl Client {
    /// Greets the server.
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).timeout(LIMIT).build()?;
        let mut client = Self { http, url: url.to_owned(), session: None, next: Cell::new(1) };
        let about = json!({"name": "cellgate-bench", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about});
        let greeting = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = client.post(&greeting).send().await?;
        let session = response.headers().get("mcp-session-id").context("the server gives a session")?;
        client.session = Some(session.to_str()?.to_owned());
        answer(response.status(), &response.text().await?, 0)?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.post(&ready).send().await?.error_for_status()?.bytes().await?;
        Ok(client)
    }

    /// Calls a tool; an error when it answers one.
    pub(crate) async fn call(&self, name: &str, arguments: &Value) -> anyhow::Result<Answer> {
        let (result, took) = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await?;
        ensure!(result["isError"] != true, "{name}: {result}");
        Ok(Answer { result, took })
    }

    /// All tools.
    pub(crate) async fn tools(&self) -> anyhow::Result<Vec<Value>> {
        let (mut result, _) = self.ask("tools/list", json!({})).await?;
        ensure!(result.get("nextCursor").is_none_or(Value::is_null), "the list has more pages");
        serde_json::from_value(result["tools"].take()).context("tools/list answers tools")
    }

    /// The result, and the time to its last byte.
    async fn ask(&self, method: &str, params: Value) -> anyhow::Result<(Value, Duration)> {
        let id = self.next.get();
        self.next.set(id + 1);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let begun = Instant::now();
        let response = self.post(&message).send().await?;
        let (status, body) = (response.status(), response.text().await?);
        let took = begun.elapsed();
        Ok((answer(status, &body, id)?, took))
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", VERSION)
            .body(message.to_string());
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }
}

/// The result with that id in a reply that is one JSON object or an event stream.
fn answer(status: StatusCode, body: &str, id: u64) -> anyhow::Result<Value> {
    for line in body.lines() {
        let line = line.strip_prefix("data:").unwrap_or(line);
        let Ok(mut message) = serde_json::from_str::<Value>(line) else { continue };
        if message["id"] == id && message.get("result").is_some() {
            return Ok(message["result"].take());
        }
    }
    bail!("{status}: no answer to request {id}: {body}")
}
