//! A gateway with the Docker provider on a data directory of its own, and what the engine has of it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::harness::{Client, Gateway, Reply, Running, Start, eventually};

/// The first launch on a machine builds the image.
pub(crate) const LAUNCH: Duration = Duration::from_secs(900);
/// How long the truth may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Held for reading by whoever uses the engine, for writing by who stops it.
pub(crate) static ENGINE: RwLock<()> = RwLock::const_new(());

/// Runs the engine's command, which has to succeed; what it printed.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let (printed, ok) = tried(arguments);
    assert!(ok, "docker {arguments:?} failed: {printed}");
    printed
}

/// Runs the engine's command; what it printed, and whether it succeeded.
pub(crate) fn tried(arguments: &[&str]) -> (String, bool) {
    let ran = Command::new("docker").args(arguments).output().expect("docker is installed (tests/setup)");
    let text = if ran.status.success() { ran.stdout } else { [ran.stdout, ran.stderr].concat() };
    (String::from_utf8_lossy(&text).trim().to_owned(), ran.status.success())
}

/// A gateway and its client.
pub(crate) struct Dock {
    pub(crate) client: Client,
    gateway: Option<Gateway>,
    arguments: Vec<String>,
    data: TempDir,
    points: TempDir,
    /// Held, not used.
    engine: Option<RwLockReadGuard<'static, ()>>,
}

impl Dock {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With more arguments.
    pub(crate) async fn with(arguments: &[&str]) -> Self {
        let engine = ENGINE.read().await;
        let mut dock = Self::unguarded(arguments).await;
        dock.engine = Some(engine);
        dock
    }

    /// For a test that stops the engine itself.
    pub(crate) async fn unguarded(arguments: &[&str]) -> Self {
        let (data, points) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let gateway = serve(data.path(), points.path(), &arguments);
        let client = connect(&gateway).await;
        Self { client, gateway: Some(gateway), arguments, data, points, engine: None }
    }

    /// The same with a sandbox named `box`.
    pub(crate) async fn with_box() -> Self {
        let dock = Self::start().await;
        dock.launch("box").await;
        dock
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

    /// Kills the gateway and starts the next one on the same data directory, with the same workspace.
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

    /// Starts a call and waits until the gateway is held at `point`.
    pub(crate) async fn held(&self, point: &str, tool: &str, arguments: Value) -> Running {
        let armed = self.points.path().join(point);
        std::fs::write(&armed, "").expect("the point is armed");
        let call = self.client.start(tool, arguments);
        eventually(&format!("{point} is reached"), LAUNCH, || !armed.exists()).await;
        call
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

    /// The names of its containers, those that ended too.
    pub(crate) fn containers(&self) -> Vec<String> {
        listed(self.data.path(), &["ps", "--all", "--format", "{{.Names}}"])
    }

    /// The names of its volumes that begin so.
    pub(crate) fn volumes(&self) -> Vec<String> {
        listed(self.data.path(), &["volume", "ls", "--format", "{{.Name}}"])
    }

    /// The container of a sandbox.
    pub(crate) async fn container(&self, name: &str) -> String {
        format!("cellgate-{}", self.record(name).await["id"].as_str().expect("an id"))
    }

    /// What the list says of `box` and what the engine has agree, sooner or later; the status.
    pub(crate) async fn truth(&self, case: &str) -> String {
        let until = tokio::time::Instant::now() + SOON;
        loop {
            let (record, containers) = (self.record("box").await, self.containers());
            let status = record["status"].as_str().unwrap_or("absent").to_owned();
            let own = format!("cellgate-{}", record["id"].as_str().unwrap_or_default());
            let homes = self.volumes().iter().filter(|name| name.ends_with("-home")).count();
            let agree = match status.as_str() {
                "running" => containers == [own] && homes == 1,
                "pending" | "starting" | "terminating" => false,
                _ => containers.is_empty() && homes == 0,
            };
            if agree {
                return status;
            }
            assert!(tokio::time::Instant::now() < until, "{case}: {record} and {containers:?}, {homes} homes");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Dock {
    fn drop(&mut self) {
        // The engine is given back last.
        let _engine = self.engine.take();
        // First the gateway, so that it makes nothing any more.
        drop(self.gateway.take());
        for container in self.containers() {
            tried(&["rm", "--force", "--volumes", &container]);
        }
        for volume in self.volumes() {
            tried(&["volume", "rm", "--force", &volume]);
        }
    }
}

/// What the engine lists of a data directory.
pub(crate) fn listed(data: &Path, command: &[&str]) -> Vec<String> {
    let Some(directory) = directory(data) else { return Vec::new() };
    let filter = format!("label=io.cellgate.directory={directory}");
    let printed = docker(&[command, &["--filter", &filter]].concat());
    printed.lines().map(str::to_owned).collect()
}

/// The id by which a data directory's things are labelled.
fn directory(data: &Path) -> Option<String> {
    let database = rusqlite::Connection::open(data.join("cellgate.db")).ok()?;
    database.query_row("SELECT id FROM directory", [], |row| row.get(0)).ok()
}

fn serve(data: &Path, points: &Path, arguments: &[String]) -> Gateway {
    let start = Start::default().data(data).env("CELLGATE_POINTS", &points.to_string_lossy());
    let start = start.argument("--variant").argument("docker");
    arguments.iter().fold(start, |start, argument| start.argument(argument)).serve()
}

/// A client whose workspace is the same before and after.
async fn connect(gateway: &Gateway) -> Client {
    Client::connect(&format!("{}?workspace=dock", gateway.url())).await
}
