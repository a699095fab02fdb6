//! A gateway that is killed and never comes back: its sandboxes end themselves when their time is over.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Client, Gateway, Process, Start, eventually, marked, mentioning};

const LAUNCH: Duration = Duration::from_secs(900);

/// A gateway that is to be killed, and what is left of it.
struct Left {
    data: TempDir,
    gateway: Gateway,
    client: Client,
}

impl Left {
    async fn launched(idle: &str, mut launch: serde_json::Value) -> Self {
        let data = TempDir::new().expect("a directory");
        let gateway = Start::default().data(data.path()).env("CELLGATE_IDLE_TIMEOUT", idle).serve();
        let client = Client::connect(gateway.url()).await;
        launch["sandbox_name"] = json!("box");
        client.call_within(LAUNCH, "launch_sandbox", launch).await.ok();
        Self { data, gateway, client }
    }

    async fn run(&self, code: &str) -> String {
        self.client.call("execute_code", json!({"code": code})).await.ok().outputs()
    }

    /// Starts code that goes on when the gateway is killed.
    async fn start(&self, code: &str) {
        let code = format!("print('begun', flush=True)\n{code}");
        let arguments = json!({"code": code, "progress_interval": 1});
        let mut run = self.client.start("execute_code", arguments);
        run.progress_with("begun").await;
        self.gateway.kill();
        run.drop_connection();
    }

    async fn ends_within(&self, seconds: u64) {
        let limit = Duration::from_secs(seconds);
        eventually("the sandbox ends itself", limit, || marked(self.data.path()).is_empty()).await;
    }

    /// What it wrote about its end.
    fn reason(&self) -> String {
        let sandbox: Vec<PathBuf> = std::fs::read_dir(self.data.path().join("sandboxes"))
            .expect("the sandboxes' directories")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(sandbox.len(), 1, "{sandbox:?}");
        std::fs::read_to_string(sandbox[0].join("ended")).expect("it tells why it ended")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.data.path().join("workspaces/local/box").join(name)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        marked(self.data.path()).iter().for_each(Process::kill);
    }
}

/// The processes of `sleep`, not those that only speak of it.
fn sleeping(number: u32) -> Vec<Process> {
    mentioning(&format!("sleep {number}"))
}

#[tokio::test]
async fn a_sandbox_that_nobody_uses_ends_itself_with_what_left_it() {
    let left = Left::launched("2", json!({})).await;
    let bare = "subprocess.Popen(['setsid', 'sleep', '98732'], env={})";
    left.run(&format!("import subprocess; subprocess.Popen(['setsid', 'sleep', '98731']); {bare}")).await;
    assert!(!sleeping(98_731).is_empty() && !sleeping(98_732).is_empty());
    left.gateway.kill();
    left.ends_within(40).await;
    let gone = || sleeping(98_731).is_empty() && sleeping(98_732).is_empty();
    eventually("its children end with it", Duration::from_secs(10), gone).await;
    assert_eq!(left.reason(), "it was not used for 2 s\n");
    let next = Start::default().data(left.data.path()).serve();
    let client = left.client.at(next.url());
    let gone = client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.gone"]);
    assert!(
        gone.text().contains("it was not used for 2 s") && gone.text().contains("files are kept"),
        "{}",
        gone.text()
    );
}

#[tokio::test]
async fn a_kernel_that_is_busy_is_waited_for() {
    let left = Left::launched("2", json!({})).await;
    // Longer than idle time and grace.
    left.start("import time; time.sleep(25); open('done', 'w').close()").await;
    left.ends_within(70).await;
    assert!(left.file("done").exists(), "it was ended while its kernel was busy");
    assert_eq!(left.reason(), "it was not used for 2 s\n");
}

#[tokio::test]
async fn an_expired_sandbox_ends_itself_though_its_kernel_is_busy() {
    let left = Left::launched("3600", json!({"ttl_seconds": 15})).await;
    left.start("import time; time.sleep(600)").await;
    left.ends_within(80).await;
    assert_eq!(left.reason(), "it expired (ttl_seconds)\n");
}

#[tokio::test]
async fn a_living_gateway_tells_jupyter_of_uses_that_it_does_not_see() {
    let left = Left::launched("4", json!({})).await;
    let jupyter = marked(left.data.path())[0].pid;
    // Without a kernel, whose connection would be a use; for longer than idle time and grace.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        left.client.call("use_sandbox", json!({"sandbox_name": "box"})).await.ok();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(marked(left.data.path()).iter().any(|process| process.pid == jupyter), "it ended itself");
}

#[tokio::test]
async fn what_the_switch_is_set_to_reaches_no_kernel() {
    let left = Left::launched("3600", json!({"ttl_seconds": 3600})).await;
    let names = left.run("import os; print(sorted(name for name in os.environ if name.startswith('CELLGATE_')))").await;
    assert_eq!(names.trim(), "['CELLGATE_INSTANCE', 'CELLGATE_SANDBOX']");
}
