//! `cellgate check URL`: a gateway tried from outside, end to end, for people and scripts. What it launches it
//! ends again, whatever happens in between.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::client::Client;
use crate::http::ENDPOINT;
use crate::telemetry::show;

/// How long the clean-up may take.
const CLEAN_UP: Duration = Duration::from_secs(30);
const TOOLS: usize = 22;

/// What to check.
#[derive(clap::Args, Debug)]
pub struct Check {
    /// The gateway's address; /mcp is its path when it has none
    #[arg(default_value = "http://127.0.0.1:8717/mcp")]
    url: String,
    /// Seconds that it may take in all
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was tried.
struct Step {
    name: &'static str,
    outcome: Result<String, String>,
    milliseconds: u128,
}

impl Check {
    /// Where to check.
    ///
    /// # Errors
    /// When it can't be a gateway's address.
    pub fn endpoint(&self) -> anyhow::Result<String> {
        let mut url = Url::parse(&self.url).with_context(|| format!("'{}' is no URL", self.url))?;
        if !matches!(url.scheme(), "http" | "https") {
            bail!("'{}' is no gateway's address: it has to start with http:// or https://", self.url);
        }
        if url.path() == "/" {
            url.set_path(ENDPOINT);
        }
        Ok(url.to_string())
    }

    /// Tries everything and prints how it went; whether all of it did well.
    pub async fn run(&self, url: String, token: Option<SecretString>, stop: CancellationToken) -> bool {
        let name = format!("check-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let client = Client::new(url.clone(), "cellgate-check").with_token(token).in_workspace(name.clone());
        let mut checked = Checked { client, steps: Vec::new(), quiet: self.json };
        let limit = Duration::from_secs(self.timeout);
        let done = tokio::select! {
            done = tokio::time::timeout(limit, checked.try_all(&name)) => done.map_err(|_| format!("it took longer than {} s", self.timeout)),
            () = stop.cancelled() => Err("it was interrupted".to_owned()),
        };
        if let Err(reason) = done {
            checked.add("in time", Instant::now(), Err(reason));
        }
        checked.clean_up(&name).await;
        let ok = checked.steps.iter().all(|step| step.outcome.is_ok());
        if self.json {
            let steps: Vec<Value> = checked.steps.iter().map(Step::as_json).collect();
            show!("{}", json!({"ok": ok, "url": url, "steps": steps}));
        }
        ok
    }
}

/// A gateway that is being checked.
struct Checked {
    client: Client,
    steps: Vec<Step>,
    quiet: bool,
}

impl Checked {
    /// The steps in their order; the first that fails is the last.
    async fn try_all(&mut self, name: &str) {
        let begun = Instant::now();
        let tools = self.tools().await;
        if !self.add("handshake", begun, tools) {
            return;
        }
        let begun = Instant::now();
        let arguments = json!({"sandbox_name": name, "ttl_seconds": 600});
        let launched = self.call("launch_sandbox", arguments).await;
        if !self.add("launch", begun, launched.map(|answer| text(&answer["structuredContent"]["message"]))) {
            return;
        }
        let begun = Instant::now();
        let ran = self.call("execute_code", json!({"code": "6 * 7", "sandbox_name": name})).await;
        let ran = ran.and_then(|answer| match text(&answer["structuredContent"]["outputs"][0]).trim() {
            "42" => Ok("6 * 7 is 42".to_owned()),
            other => Err(format!("6 * 7 is '{other}'")),
        });
        self.add("run", begun, ran);
    }

    async fn tools(&self) -> Result<String, String> {
        let listed = self.client.request("server/discover", json!({})).await.map_err(|error| format!("{error:#}"))?;
        let server = &listed["_meta"]["io.modelcontextprotocol/serverInfo"];
        let listed = self.client.request("tools/list", json!({})).await.map_err(|error| format!("{error:#}"))?;
        match listed["tools"].as_array().map_or(0, Vec::len) {
            TOOLS => Ok(format!("{} {}, {TOOLS} tools", text(&server["name"]), text(&server["version"]))),
            other => Err(format!("it has {other} tools, not {TOOLS}: it is no Cellgate, or another version")),
        }
    }

    /// Ends what was launched, once a launch was asked for.
    async fn clean_up(&mut self, name: &str) {
        if self.steps.first().is_none_or(|handshake| handshake.outcome.is_err()) {
            return;
        }
        let begun = Instant::now();
        let ended = self.call("terminate_sandbox", json!({"sandbox_name": name}));
        let ended = tokio::time::timeout(CLEAN_UP, ended).await;
        let ended = ended
            .unwrap_or_else(|_| Err("it was not ended in time; it ends by itself 10 min after its launch".to_owned()));
        let ended = match ended {
            // The launch failed, and left nothing.
            Err(reason) if reason.starts_with("sandbox.not_found") => return,
            ended => ended,
        };
        self.add("clean up", begun, ended.map(|answer| text(&answer["structuredContent"]["result"])));
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let answer = self.client.call(tool, arguments, &mut |_| {}).await.map_err(|error| format!("{error:#}"))?;
        if answer["isError"] == true {
            let error = &answer["structuredContent"]["error"];
            return Err(format!("{}: {}", text(&error["code"]), text(&error["message"])));
        }
        Ok(answer)
    }

    /// Notes how a step went, and says it; whether it went well.
    fn add(&mut self, name: &'static str, begun: Instant, outcome: Result<String, String>) -> bool {
        let step = Step { name, outcome, milliseconds: begun.elapsed().as_millis() };
        let ok = step.outcome.is_ok();
        if !self.quiet {
            let (Ok(detail) | Err(detail)) = &step.outcome;
            let sign = if ok { '✓' } else { '✗' };
            show!("{sign} {name:<10} {detail} ({} ms)", step.milliseconds);
        }
        self.steps.push(step);
        ok
    }
}

impl Step {
    fn as_json(&self) -> Value {
        let (Ok(detail) | Err(detail)) = &self.outcome;
        let milliseconds = u64::try_from(self.milliseconds).unwrap_or(u64::MAX);
        json!({"name": self.name, "ok": self.outcome.is_ok(), "milliseconds": milliseconds, "detail": detail})
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
