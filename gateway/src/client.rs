//! A small MCP client over Streamable HTTP (protocol version 2026-07-28, no session), for the
//! gateway's own commands.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use reqwest::Response;
use serde_json::{Value, json};

const VERSION: &str = "2026-07-28";

/// A client of one endpoint.
pub struct Client {
    http: reqwest::Client,
    url: String,
    name: &'static str,
    next: AtomicU64,
}

impl Client {
    /// A client called `name`, of the endpoint at `url`.
    pub fn new(url: String, name: &'static str) -> Self {
        Self { http: reqwest::Client::new(), url, name, next: AtomicU64::new(1) }
    }

    /// Calls a tool and answers its result; `on_progress` hears what comes on the way.
    ///
    /// # Errors
    /// When the gateway can't be reached or answers a protocol error.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Value,
        on_progress: &mut (dyn FnMut(&str) + Send),
    ) -> anyhow::Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let meta = json!({
            "progressToken": id,
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": env!("CARGO_PKG_VERSION")},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .json(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let response = request.send().await.context("the gateway can't be reached")?;
        let mut messages = Messages { response, buffer: Vec::new() };
        while let Some(message) = messages.next().await? {
            if message["method"] == "notifications/progress" {
                on_progress(message["params"]["message"].as_str().unwrap_or_default());
            } else if let Some(error) = message.get("error") {
                bail!("the gateway refused the call: {}", error["message"].as_str().unwrap_or_default());
            } else if message["id"] == id {
                return Ok(message["result"].clone());
            }
        }
        bail!("the gateway closed the connection without an answer")
    }
}

/// The JSON-RPC messages of a response, which is one JSON object or an event stream.
struct Messages {
    response: Response,
    buffer: Vec<u8>,
}

impl Messages {
    async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if let Some(message) = message(&line) {
                    return Ok(Some(message));
                }
            }
            match self.response.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Ok(message(&std::mem::take(&mut self.buffer))),
            }
        }
    }
}

fn message(line: &[u8]) -> Option<Value> {
    let line = line.strip_prefix(b"data:").unwrap_or(line);
    serde_json::from_slice(line).ok().filter(Value::is_object)
}
