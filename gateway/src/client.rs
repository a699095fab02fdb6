//! A small MCP client over Streamable HTTP (protocol version 2026-07-28, no session), for the
//! gateway's own commands.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, anyhow, bail};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use url::{Host, Url};

const VERSION: &str = "2026-07-28";

/// A client of one endpoint.
pub struct Client {
    http: reqwest::Client,
    url: Url,
    name: &'static str,
    headers: HeaderMap,
    next: AtomicU64,
}

impl Client {
    /// A client called `name`, of the endpoint at `url`.
    ///
    /// # Errors
    /// When the URL is none, or TLS can't be set up.
    pub fn new(url: &str, name: &'static str) -> anyhow::Result<Self> {
        let url: Url = url.parse().with_context(|| format!("'{url}' is no URL"))?;
        // A redirect could carry the token to another host.
        let builder = reqwest::Client::builder().redirect(Policy::none());
        let builder = if is_loopback(&url) { builder.no_proxy() } else { builder };
        // Without TLS a machine that has no CA certificates will do.
        let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
        let http = builder
            .build()
            .map_err(|error| anyhow!("TLS can't be set up ({}): install CA certificates", cause(&error)))?;
        Ok(Self { http, url, name, headers: HeaderMap::new(), next: AtomicU64::new(1) })
    }

    /// Shows this bearer token, where there is one, in each request.
    ///
    /// # Errors
    /// When no header can carry the token.
    pub fn with_token(mut self, token: Option<&SecretString>) -> anyhow::Result<Self> {
        let Some(token) = token else { return Ok(self) };
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
        let mut value = value.context("the token can't be sent in a header: check that it was copied whole")?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(self)
    }

    /// Sends this header with each request.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
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
        let params = Map::from_iter([("name".to_owned(), json!(tool)), ("arguments".to_owned(), arguments)]);
        self.request("tools/call", params, on_progress).await
    }

    /// Sends a request and answers its result; `on_progress` hears what comes on the way.
    ///
    /// # Errors
    /// When the gateway can't be reached, refuses the request, or something else answers.
    pub async fn request(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        on_progress: &mut (dyn FnMut(&str) + Send),
    ) -> anyhow::Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        params.insert("_meta".to_owned(), self.meta(id));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(&message).send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        let mut messages = Messages { response, buffer: Vec::new() };
        while let Some(message) = messages.next().await.context("the connection broke off: call again")? {
            if message["method"] == "notifications/progress" {
                on_progress(message["params"]["message"].as_str().unwrap_or_default());
            } else if let Some(error) = message.get("error") {
                bail!("the gateway refused the call: {}", error["message"].as_str().unwrap_or_default());
            } else if message["id"] == id {
                return Ok(message["result"].clone());
            }
        }
        Err(self.no_answer(status))
    }

    fn meta(&self, id: u64) -> Value {
        json!({
            "progressToken": id,
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": env!("CARGO_PKG_VERSION")},
        })
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let mut request = self
            .http
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", message["method"].as_str().unwrap_or_default());
        if let Some(name) = message["params"]["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        request.json(message)
    }

    /// What to do about a response that held no answer.
    fn no_answer(&self, status: StatusCode) -> anyhow::Error {
        match status {
            StatusCode::UNAUTHORIZED if self.headers.contains_key(AUTHORIZATION) => {
                anyhow!("the gateway refused the token: put its own into CELLGATE_TOKEN or --token-file")
            }
            StatusCode::UNAUTHORIZED => {
                anyhow!("the gateway wants a token: put it into CELLGATE_TOKEN or --token-file")
            }
            StatusCode::FORBIDDEN => {
                anyhow!("HTTP 403: add the host name of this URL to the gateway's --allowed-hosts")
            }
            status if status.is_success() => anyhow!("what answers there speaks no MCP: check the URL"),
            status => anyhow!("no gateway answers there but HTTP {}: check the URL", status.as_u16()),
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn unreachable(error: &reqwest::Error) -> anyhow::Error {
    anyhow!("the gateway can't be reached ({}): check the URL, and that the gateway runs there", cause(error))
}

/// The innermost reason, which is what the network said.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
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
