//! A small MCP client over Streamable HTTP (protocol version 2026-07-28, no session), for the
//! gateway's own commands.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

const VERSION: &str = "2026-07-28";

/// A client of one endpoint.
pub struct Client {
    http: reqwest::Client,
    url: String,
    name: &'static str,
    token: Option<SecretString>,
    workspace: Option<String>,
    next: AtomicU64,
}

impl Client {
    /// A client called `name`, of the endpoint at `url`.
    pub fn new(url: String, name: &'static str) -> Self {
        Self { http: reqwest::Client::new(), url, name, token: None, workspace: None, next: AtomicU64::new(1) }
    }

    /// The same, showing a bearer token.
    #[must_use]
    pub fn with_token(self, token: Option<SecretString>) -> Self {
        Self { token, ..self }
    }

    /// The same, in the workspace of that name.
    #[must_use]
    pub fn in_workspace(self, name: String) -> Self {
        Self { workspace: Some(name), ..self }
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
        self.exchange("tools/call", json!({"name": tool, "arguments": arguments}), on_progress).await
    }

    /// Sends a request and answers its result.
    ///
    /// # Errors
    /// When the gateway can't be reached or answers a protocol error.
    pub async fn request(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.exchange(method, params, &mut |_| {}).await
    }

    async fn exchange(
        &self,
        method: &str,
        mut params: Value,
        on_progress: &mut (dyn FnMut(&str) + Send),
    ) -> anyhow::Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        params["_meta"] = json!({
            "progressToken": id,
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": env!("CARGO_PKG_VERSION")},
        });
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(method, &body).send().await.context("the gateway can't be reached")?;
        let (status, mut messages) = (response.status(), Messages { response, buffer: Vec::new() });
        if status == reqwest::StatusCode::UNAUTHORIZED {
            bail!("the gateway refused the token: set CELLGATE_TOKEN, or --token-file, to one that it knows");
        }
        while let Some(message) = messages.next().await? {
            if message["method"] == "notifications/progress" {
                on_progress(message["params"]["message"].as_str().unwrap_or_default());
            } else if let Some(error) = message.get("error") {
                bail!("the gateway refused the call: {}", error["message"].as_str().unwrap_or_default());
            } else if message["id"] == id {
                return Ok(message["result"].clone());
            }
        }
        bail!("what answers there (HTTP {}) is not an MCP server that speaks {VERSION}", status.as_u16())
    }

    fn post(&self, method: &str, body: &Value) -> RequestBuilder {
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", method)
            .json(body);
        if let Some(name) = body["params"]["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some(workspace) = &self.workspace {
            request = request.header("cellgate-workspace", workspace);
        }
        request
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
