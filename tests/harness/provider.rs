//! What every provider's sandboxes have to do, whoever makes them.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::Client;
use super::gateway::{Gateway, Start};
use super::reply::Reply;
use super::wait::eventually;

/// The first launch on a machine makes what sandboxes run on.
const LAUNCH: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(30);

/// Tells what exists of the sandboxes of a data directory.
pub(crate) type Left = Box<dyn Fn(&Path) -> Vec<String>>;

/// A provider under test.
pub(crate) struct Provider {
    /// What callers call it.
    pub(crate) variant: &'static str,
    /// With what a gateway is started besides.
    pub(crate) arguments: Vec<String>,
    /// What exists of the sandboxes of a data directory.
    pub(crate) left: Left,
}

/// A gateway that launches with a provider.
struct Stand<'a> {
    provider: &'a Provider,
    data: TempDir,
    points: TempDir,
    gateway: Gateway,
    client: Client,
}

impl<'a> Stand<'a> {
    async fn set(provider: &'a Provider) -> Self {
        let (data, points) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let (gateway, client) = serve(provider, data.path(), points.path()).await;
        Self { provider, data, points, gateway, client }
    }

    async fn restart(&mut self) {
        self.gateway.kill();
        (self.gateway, self.client) = serve(self.provider, self.data.path(), self.points.path()).await;
    }

    async fn launch(&self, arguments: Value) -> Reply {
        self.client.call_within(LAUNCH, "launch_sandbox", arguments).await
    }

    async fn run(&self, code: &str) -> String {
        self.client.call("execute_code", json!({"sandbox_name": "box", "code": code})).await.ok().outputs()
    }

    async fn nothing_is_left(&self, when: &str) {
        eventually(&format!("nothing is left {when}"), SOON, || (self.provider.left)(self.data.path()).is_empty())
            .await;
    }

    async fn record(&self) -> Value {
        let listed = self.client.call("list_sandboxes", json!({})).await.ok();
        let records = listed.get("result").as_array().expect("a list").clone();
        records.into_iter().find(|record| record["name"] == "box").unwrap_or_default()
    }

    async fn becomes(&self, status: &str) -> Value {
        let until = tokio::time::Instant::now() + SOON;
        loop {
            let record = self.record().await;
            if record["status"] == status {
                return record;
            }
            assert!(tokio::time::Instant::now() < until, "it is not {status}: {record}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// One life: launched, asked for again, used, ended, brought back.
    async fn a_life(&self) {
        let launched = self.launch(json!({"sandbox_name": "box"})).await.ok();
        let record = launched.get("sandbox").clone();
        assert_eq!((&record["variant"], &record["status"]), (&json!(self.provider.variant), &json!("running")));
        let url = record["url"].as_str().expect("a URL");
        assert!(url.ends_with(&format!("/sandboxes/{}/", record["id"].as_str().expect("an id"))), "{url}");
        let again = self.launch(json!({"sandbox_name": "box", "variant": self.provider.variant})).await.ok();
        assert_eq!(again.get("sandbox")["id"], record["id"]);
        self.launch(json!({"sandbox_name": "box", "ttl_seconds": 9999})).await.refused(&["sandbox.name_taken"]);
        self.run("open('kept.txt', 'w').write('kept'); x = 41").await;
        self.run("import os; os.chmod(os.getcwd(), 0)").await;
        self.client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
        self.nothing_is_left("of one that was terminated").await;
        self.client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok().says("ended before");
        let gone = self.client.call("execute_code", json!({"sandbox_name": "box", "code": "1"})).await;
        gone.refused(&["sandbox.gone"]);
        self.launch(json!({"sandbox_name": "box"})).await.ok();
        assert!(self.run("print(open('kept.txt').read())").await.contains("kept"));
    }

    /// A wish that can't be kept, or makes no sense, is refused, and nothing is made.
    async fn refusals(&self) {
        let refuse = |arguments: Value| async move { self.launch(arguments).await };
        let with_url = json!({"sandbox_name": "no", "server_url": "http://127.0.0.1:1"});
        refuse(with_url).await.refused(&["provider.unsupported"]).says("server_url");
        refuse(json!({"sandbox_name": "no", "variant": "eval"})).await.refused(&["provider.unsupported"]);
        let reserved = json!({"sandbox_name": "no", "env": {"CELLGATE_X": "1"}});
        refuse(reserved).await.refused(&["arguments.invalid"]);
        refuse(json!({"sandbox_name": "../no"})).await.refused(&["arguments.invalid"]);
    }

    /// A gateway that dies is followed by one that goes on.
    async fn goes_on(&mut self) {
        self.run("y = 40").await;
        self.restart().await;
        assert!(self.run("print(y + 2)").await.contains("42"));
        self.client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
        self.nothing_is_left("of one that was gone on with").await;
    }

    async fn cancelled(&self) {
        let armed = self.points.path().join("launch.started");
        std::fs::write(&armed, "").expect("the point is armed");
        let call = self.client.start("launch_sandbox", json!({"sandbox_name": "box"}));
        eventually("it is being made", SOON, || !armed.exists()).await;
        call.cancel().await;
        self.becomes("failed").await;
        self.nothing_is_left("of a launch that was cancelled").await;
    }

    async fn expires(&self) {
        self.launch(json!({"sandbox_name": "box", "ttl_seconds": 2})).await.ok();
        let record = self.becomes("terminated").await;
        assert!(record["status_reason"].to_string().contains("expired"), "{record}");
        self.nothing_is_left("of one that expired").await;
    }

    /// Files are kept until they are pruned.
    fn prunes(&self) {
        let start = Start::default().data(self.data.path()).argument("--variant").argument(self.provider.variant);
        let start = self.provider.arguments.iter().fold(start, |start, argument| start.argument(argument));
        let prune = |arguments: &[&str]| {
            let ran = start.command("prune").args(arguments).output().expect("it runs");
            String::from_utf8_lossy(&ran.stdout).into_owned()
        };
        assert!(prune(&[]).contains("box"));
        assert!(prune(&["--yes"]).contains("1 deleted"));
        assert_eq!(prune(&["--json"]).trim(), "[]");
    }
}

/// The provider contract.
pub(crate) async fn keeps_the_contract(provider: &Provider) {
    let mut stand = Stand::set(provider).await;
    stand.a_life().await;
    stand.refusals().await;
    stand.goes_on().await;
    stand.cancelled().await;
    stand.expires().await;
    stand.prunes();
}

async fn serve(provider: &Provider, data: &Path, points: &Path) -> (Gateway, Client) {
    let start = Start::default().data(data).env("CELLGATE_POINTS", &points.to_string_lossy());
    let start = start.argument("--variant").argument(provider.variant);
    let gateway = provider.arguments.iter().fold(start, |start, argument| start.argument(argument)).serve();
    let client = Client::connect(&format!("{}?workspace=contract", gateway.url())).await;
    (gateway, client)
}
