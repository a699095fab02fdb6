//! What is asked of the gateway: one function a step, each answers what it found.

use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::header::{HeaderName, HeaderValue};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use url::Url;

use crate::client::Client;
use crate::tools::CATALOGUE;

/// A launch has to say why it failed before the check gives up.
const HEAD_START: u64 = 5;
/// How long a sandbox lives on when the check is killed before it could clean up.
const LEFT_OVER: u64 = 60;
const WORKSPACE: HeaderName = HeaderName::from_static("cellgate-workspace");
const CODE: &str = "6 * 7";
const RESULT: &str = "42";
/// How long a connection may take from here.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECT: &str = "import socket
host, port = ADDRESS.rsplit(':', 1)
try:
    socket.create_connection((host.strip('[]'), int(port)), timeout=5).close()
    print('answers')
except OSError:
    print('refused')";

/// A client with a workspace of its own and a sandbox that has no name's like.
pub(super) struct Probe {
    client: Client,
    sandbox: String,
}

impl Probe {
    pub(super) fn new(url: &Url, token: Option<&SecretString>) -> anyhow::Result<Self> {
        let digits: String = uuid::Uuid::new_v4().simple().to_string().chars().take(6).collect();
        let sandbox = format!("check-{digits}");
        let client = Client::new(url.as_str(), "cellgate-check")?
            .with_token(token)?
            .with_header(WORKSPACE, HeaderValue::from_str(&sandbox)?);
        Ok(Self { client, sandbox })
    }

    pub(super) async fn handshake(&self) -> anyhow::Result<String> {
        let hello = self.client.request("server/discover", Map::new(), &mut |_| ()).await?;
        let server = &hello["_meta"]["io.modelcontextprotocol/serverInfo"];
        match (server["name"].as_str(), server["version"].as_str()) {
            (Some(name), Some(version)) => Ok(format!("{name} {version}")),
            _ => bail!("the server doesn't say what it is: check the URL"),
        }
    }

    pub(super) async fn tools(&self) -> anyhow::Result<String> {
        let list = self.client.request("tools/list", Map::new(), &mut |_| ()).await?;
        let there: Vec<&str> =
            list["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
        let names = CATALOGUE.iter().map(|entry| entry.contract.tool);
        let missing: Vec<&str> = names.filter(|name| !there.contains(name)).collect();
        if missing.is_empty() {
            return Ok(format!("{} tools", there.len()));
        }
        bail!("the server lacks {}: check the URL, and with a cellgate of the gateway's version", missing.join(", "))
    }

    /// Launches the sandbox within `limit` seconds.
    pub(super) async fn launch(&self, limit: u64) -> anyhow::Result<String> {
        let arguments = json!({
            "sandbox_name": self.sandbox,
            "timeout": limit.saturating_sub(HEAD_START).max(1),
            "ttl_seconds": limit + LEFT_OVER,
        });
        let launched = done(self.call("launch_sandbox", arguments).await?)?;
        match launched["sandbox"]["variant"].as_str() {
            Some(variant) => Ok(format!("{} ({variant})", self.sandbox)),
            None => bail!("the answer tells of no sandbox: check that the server is a Cellgate"),
        }
    }

    pub(super) async fn run(&self) -> anyhow::Result<String> {
        let ran = done(self.call("execute_code", json!({"code": CODE, "sandbox_name": self.sandbox})).await?)?;
        if ran["outputs"] != json!([RESULT]) {
            bail!("{CODE} should give {RESULT} and gave {}: look at the sandboxes' Python", ran["outputs"]);
        }
        Ok(format!("{CODE} is {RESULT}"))
    }

    /// Tries addresses from here, then from the sandbox, which must reach none of them.
    pub(super) async fn isolation(&self, addresses: &[String]) -> anyhow::Result<String> {
        let mut found = Vec::new();
        for address in addresses {
            let here = tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(address)).await;
            let code = CONNECT.replace("ADDRESS", &serde_json::to_string(address)?);
            let ran = done(self.call("execute_code", json!({"code": code, "sandbox_name": self.sandbox})).await?)?;
            match ran["outputs"][0].as_str().map(str::trim) {
                Some("answers") => {
                    bail!("the sandbox reaches {address}: look at the network policies, and whether they are enforced")
                }
                Some("refused") => {}
                _ => bail!("what becomes of {address} in the sandbox can't be told: {}", ran["outputs"]),
            }
            let control = if matches!(here, Ok(Ok(_))) { "it answers here" } else { "nothing answers here either" };
            found.push(format!("no way to {address} ({control})"));
        }
        Ok(found.join(", "))
    }

    /// Ends the sandbox. One that was not `launched` may be unknown.
    pub(super) async fn clean_up(&self, launched: bool) -> anyhow::Result<String> {
        self.ended(launched).await.with_context(|| format!("{} may still run", self.sandbox))
    }

    async fn ended(&self, launched: bool) -> anyhow::Result<String> {
        let ended = self.call("terminate_sandbox", json!({"sandbox_name": self.sandbox})).await?;
        if !launched && ended["error"]["code"] == "sandbox.not_found" {
            return Ok("nothing was left to end".to_owned());
        }
        Ok(match done(ended)?["files"].as_str() {
            Some(files) => format!("{} is terminated; its files stay in {files}", self.sandbox),
            None => format!("{} is terminated; it left no files", self.sandbox),
        })
    }

    async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<Value> {
        let result = self.client.call(tool, arguments, &mut |_| ()).await?;
        Ok(result["structuredContent"].clone())
    }
}

/// The answer, unless it is that of a call that failed.
fn done(answer: Value) -> anyhow::Result<Value> {
    match answer["error"]["message"].as_str() {
        Some(message) => bail!("{message}"),
        None => Ok(answer),
    }
}
