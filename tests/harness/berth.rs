//! A gateway on a data directory of its own, which can be held at points, killed and started again.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Client, Running};
use super::gateway::{Gateway, Start};
use super::reply::Reply;
use super::wait::eventually;

/// The first launch on a machine may have to build or load what sandboxes run on.
pub(crate) const LAUNCH: Duration = Duration::from_secs(900);
/// How long the truth may take.
pub(crate) const SOON: Duration = Duration::from_secs(40);

/// A gateway and its client, whose workspace is the same before and after a restart.
pub(crate) struct Berth {
    pub(crate) client: Client,
    gateway: Option<Gateway>,
    arguments: Vec<String>,
    data: TempDir,
    points: TempDir,
}

impl Berth {
    /// Started with these arguments.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let (data, points) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let gateway = serve(data.path(), points.path(), &arguments);
        let client = connect(&gateway).await;
        Self { client, gateway: Some(gateway), arguments, data, points }
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it runs")
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    pub(crate) async fn launch(&self, name: &str) -> Reply {
        self.launch_with(json!({"sandbox_name": name})).await.ok()
    }

    pub(crate) async fn launch_with(&self, arguments: Value) -> Reply {
        self.client.call_within(LAUNCH, "launch_sandbox", arguments).await
    }

    pub(crate) async fn terminate(&self, name: &str) -> Reply {
        self.client.call("terminate_sandbox", json!({"sandbox_name": name})).await.ok()
    }

    /// What code prints in a sandbox.
    pub(crate) async fn run(&self, sandbox: &str, code: &str) -> String {
        self.client.call("execute_code", json!({"sandbox_name": sandbox, "code": code})).await.ok().outputs()
    }

    /// Kills the gateway and starts the next one on the same data directory.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.gateway().kill();
        self.restarted().await;
    }

    /// Stops the gateway as planned, and starts the next one.
    pub(crate) async fn stop_and_restart(&mut self) {
        self.gateway().end_by("TERM").await;
        self.restarted().await;
    }

    async fn restarted(&mut self) {
        self.gateway = Some(serve(self.data.path(), self.points.path(), &self.arguments));
        self.client = connect(self.gateway()).await;
    }

    /// Ends the gateway, so that nothing is made any more.
    pub(crate) fn end(&mut self) {
        drop(self.gateway.take());
    }

    /// Starts a call and waits until the gateway is held at `point`.
    pub(crate) async fn held(&self, point: &str, tool: &str, arguments: Value) -> Running {
        let armed = self.points.path().join(point);
        std::fs::write(&armed, "").expect("the point is armed");
        let call = self.client.start(tool, arguments);
        eventually(&format!("{point} is reached"), LAUNCH, || !armed.exists()).await;
        call
    }

    /// Lets it go on from a point that it is held at.
    pub(crate) fn go_on(&self, point: &str) {
        std::fs::write(self.points.path().join(format!("{point}.go")), "").expect("it goes on");
    }

    /// What the list says of a sandbox.
    pub(crate) async fn record(&self, name: &str) -> Value {
        let listed = self.client.call("list_sandboxes", json!({})).await.ok();
        let records = listed.get("result").as_array().expect("a list").clone();
        records.into_iter().find(|record| record["name"] == name).unwrap_or_default()
    }

    /// Waits until a sandbox has this status; its record.
    pub(crate) async fn becomes(&self, name: &str, status: &str) -> Value {
        let until = tokio::time::Instant::now() + SOON;
        loop {
            let record = self.record(name).await;
            if record["status"] == status {
                return record;
            }
            assert!(tokio::time::Instant::now() < until, "{name} is not {status}: {record}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until what the list says of `box` and what there is agree; the status. `exists` tells, for its record, whether
    /// just that sandbox is there; `is_clear` whether nothing of it is.
    pub(crate) async fn truth(
        &self,
        case: &str,
        exists: impl Fn(&Value) -> bool,
        is_clear: impl Fn() -> bool,
    ) -> String {
        let until = tokio::time::Instant::now() + SOON;
        loop {
            let record = self.record("box").await;
            let status = record["status"].as_str().unwrap_or("absent").to_owned();
            let agree = match status.as_str() {
                "running" => exists(&record),
                "pending" | "starting" | "terminating" => false,
                _ => is_clear(),
            };
            if agree {
                return status;
            }
            assert!(tokio::time::Instant::now() < until, "{case}: what there is is not what is told: {record}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn serve(data: &Path, points: &Path, arguments: &[String]) -> Gateway {
    let start = Start::default().data(data).env("CELLGATE_POINTS", &points.to_string_lossy());
    arguments.iter().fold(start, |start, argument| start.argument(argument)).serve()
}

async fn connect(gateway: &Gateway) -> Client {
    Client::connect(&format!("{}?workspace=berth", gateway.url())).await
}
