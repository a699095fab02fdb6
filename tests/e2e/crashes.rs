//! The gateway's own end, planned or not: nothing is left over and files are whole.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::harness::{Client, Gateway, Process, Start, eventually, marked, mentioning, validate_notebook};

const LAUNCH: Duration = Duration::from_secs(900);

/// Starts a child that outlives its kernel, and one that leaves the kernel's session too.
fn with_children(number: u32) -> String {
    format!(
        "import subprocess, time\nsubprocess.Popen(['sleep', '{number}'])\nsubprocess.Popen(['sleep', '{number}'], start_new_session=True)\n\
         for i in range(600):\n    print('tick', i, flush=True)\n    time.sleep(0.1)"
    )
}

async fn running(data: &Path, number: u32) -> (Gateway, crate::harness::Running) {
    let gateway = Start::default().data(data).serve();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    let arguments = json!({"cell_index": 0, "cell_source": with_children(number), "progress_interval": 1});
    let mut run = client.start("insert_execute_code_cell", arguments);
    run.progress_with("tick").await;
    assert_eq!(mentioning(&format!("sleep {number}")).len(), 2);
    (gateway, run)
}

async fn assert_clean(data: &Path, number: u32) {
    let words = format!("sleep {number}");
    let clean = || marked(data).is_empty() && mentioning(&words).is_empty();
    eventually("no process is left", Duration::from_secs(15), clean).await;
    validate_notebook(&data.join("workspaces/local/box/n.ipynb"));
}

/// The gateway works again, on the same files.
async fn assert_works(gateway: &Gateway) {
    let client = Client::connect(gateway.url()).await;
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let records = listed.get("result").as_array().unwrap().clone();
    assert!(records.iter().all(|record: &Value| record["status"] != "running"), "{records:?}");
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb"})).await.ok();
    let read = client.call("read_cell", json!({"cell_index": 0})).await.ok();
    assert!(read.get("source").as_str().unwrap().contains("subprocess"));
    client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "40 + 2"})).await.ok().says("42");
}

#[tokio::test]
async fn what_a_killed_gateway_was_running_goes_on_under_the_next_one_and_ends_with_it() {
    let data = TempDir::new().expect("a directory");
    let (gateway, run) = running(data.path(), 98_701).await;
    gateway.kill();
    run.drop_connection();
    let next = Start::default().data(data.path()).serve();
    let client = Client::connect(next.url()).await;
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    assert_eq!(listed.get("result")[0]["status"], "running", "{}", listed.text());
    client.call("list_files", json!({})).await.ok().says("n.ipynb");
    assert_eq!(mentioning("sleep 98701").len(), 2);
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert_clean(data.path(), 98_701).await;
    assert_works(&next).await;
}

#[tokio::test]
async fn an_interrupt_in_the_middle_of_a_run_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let data = TempDir::new().expect("a directory");
        let (gateway, run) = running(data.path(), 98_702).await;
        let status = gateway.end_by(signal).await;
        assert!(status.success(), "{signal}: {status}");
        run.drop_connection();
        assert_clean(data.path(), 98_702).await;
        let next = Start::default().data(data.path()).serve();
        assert_works(&next).await;
    }
}

/// Ends what a fault left, so that it does not outlive its test.
struct Leftovers<'a>(&'a Path);

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        marked(self.0).iter().for_each(Process::kill);
    }
}

#[tokio::test]
async fn a_gateway_whose_log_nobody_reads_any_more_still_answers_and_stops_and_leaves_nothing() {
    let data = TempDir::new().expect("a directory");
    let _leftovers = Leftovers(data.path());
    let mut command = Command::from(Start::default().data(data.path()).command("serve"));
    command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().expect("it starts");
    let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
    let line = log.next_line().await.expect("its log can be read").expect("it says where it listens");
    let url = line.split_whitespace().find(|word| word.starts_with("http")).expect("an address");
    let client = Client::connect(url).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    drop(log);
    client.call_within(Duration::from_secs(20), "execute_code", json!({"code": "1"})).await.ok();
    let pid = child.id().expect("it runs").to_string();
    Command::new("kill").args(["-s", "TERM", &pid]).status().await.expect("kill runs");
    let ended = tokio::time::timeout(Duration::from_secs(20), child.wait()).await;
    assert!(ended.is_ok_and(|status| status.is_ok_and(|status| status.success())), "it does not stop");
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
}

#[tokio::test]
async fn an_interrupt_during_a_launch_leaves_nothing() {
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    let launching = client.start("launch_sandbox", json!({"sandbox_name": "box"}));
    eventually("the launch has begun", LAUNCH, || !marked(data.path()).is_empty()).await;
    gateway.end_by("INT").await;
    launching.drop_connection();
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
}

#[tokio::test]
async fn a_second_gateway_on_the_same_data_leaves_the_first_ones_sandboxes_alone() {
    let data = TempDir::new().expect("a directory");
    let first = Start::default().data(data.path()).serve();
    let client = Client::connect(first.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "mine"})).await.ok();
    client.call("execute_code", json!({"code": "x = 'still here'"})).await.ok();
    {
        let second = Start::default().data(data.path()).serve();
        let other = Client::connect(second.url()).await;
        other.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "theirs"})).await.ok();
    }
    assert_eq!(client.call("execute_code", json!({"code": "print(x)"})).await.ok().outputs().trim(), "still here");
}

#[tokio::test]
async fn a_terminated_sandbox_leaves_no_process_not_even_one_that_left_its_session() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    let code = "import subprocess\nsubprocess.Popen(['sleep', '98703'])\nsubprocess.Popen(['sleep', '98703'], start_new_session=True)\n\
                subprocess.Popen(['setsid', 'sh', '-c', 'sleep 98703; true'])";
    client.call("execute_code", json!({"code": code})).await.ok();
    assert!(!mentioning("sleep 98703").is_empty());
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(mentioning("sleep 98703").is_empty(), "{:?}", mentioning("sleep 98703"));
    assert!(marked(gateway.data()).is_empty());
}
