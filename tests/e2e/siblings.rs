//! Gateways beside each other on one data directory: what one leaves, what another sees, and what none may touch.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Desk, ForeignJupyter, Gateway, Start, eventually, marked, shared, signal};

const LAUNCH: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(20);

fn on(data: &Path) -> Start {
    Start::default().data(data)
}

async fn in_workspace(gateway: &Gateway, name: &str) -> Client {
    Client::connect(&format!("{}?workspace={name}", gateway.url())).await
}

async fn launch(client: &Client, name: &str) -> Value {
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": name})).await.ok().get("sandbox").clone()
}

async fn taken_over(gateway: &Gateway) {
    eventually("it is taken over", SOON, || gateway.log().contains("going on with a sandbox")).await;
}

#[tokio::test]
async fn files_that_were_to_be_kept_are_kept_by_an_heir_that_keeps_none() {
    let data = TempDir::new().expect("a directory");
    let first = on(data.path()).serve();
    let client = Client::connect(first.url()).await;
    launch(&client, "kept").await;
    client.call("execute_code", json!({"code": "open('f', 'w').close()"})).await.ok();
    let heir = on(data.path()).argument("--ephemeral").serve();
    first.kill();
    taken_over(&heir).await;
    assert!(heir.end_by("TERM").await.success());
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    assert!(data.path().join("workspaces/local/kept/f").exists());
}

#[tokio::test]
async fn what_a_planned_stop_leaves_running_is_a_living_siblings_from_then_on() {
    let data = TempDir::new().expect("a directory");
    let first = on(data.path()).argument("--keep-sandboxes").serve();
    let client = Client::connect(first.url()).await;
    launch(&client, "left").await;
    let sibling = on(data.path()).serve();
    assert!(first.end_by("TERM").await.success());
    let client = client.at(sibling.url());
    client.call("execute_code", json!({"code": "1"})).await.ok();
    taken_over(&sibling).await;
    client.call("terminate_sandbox", json!({"sandbox_name": "left"})).await.ok();
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    assert_eq!(std::fs::read_dir(data.path().join("instances")).expect("a folder").count(), 2);
}

#[tokio::test]
async fn a_living_gateway_whose_lock_file_was_removed_keeps_its_sandboxes() {
    let data = TempDir::new().expect("a directory");
    let first = on(data.path()).serve();
    let client = Client::connect(first.url()).await;
    launch(&client, "mine").await;
    client.call("execute_code", json!({"code": "x = 41"})).await.ok();
    // Stopped, so that it can't make its file again before the other one looks.
    first.signal("STOP");
    std::fs::remove_dir_all(data.path().join("instances")).expect("it was there");
    let other = on(data.path()).serve();
    Client::connect(other.url()).await.call("list_sandboxes", json!({})).await.ok();
    first.signal("CONT");
    assert!(other.end_by("TERM").await.success());
    let ran = client.call("execute_code", json!({"code": "print(x + 1)"})).await.ok();
    assert_eq!(ran.outputs().trim(), "42");
}

#[tokio::test]
async fn a_server_that_is_attached_to_one_gateway_takes_no_room_of_another() {
    let desk = Desk::new().await;
    let foreign = ForeignJupyter::start(shared().data()).await;
    drop(desk);
    let data = TempDir::new().expect("a directory");
    let start = || on(data.path()).env("CELLGATE_MAX_SANDBOXES", "1");
    let (one, other) = (start().serve(), start().serve());
    let attach = json!({"jupyter_url": foreign.url(), "jupyter_token": foreign.token()});
    let client = Client::connect(one.url()).await;
    client.call("connect_to_jupyter", attach.clone()).await.ok();
    let second = Client::connect(other.url()).await;
    launch(&second, "box").await;
    second.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    // Attached to both, one of which dies: the other goes on with its own.
    second.call("connect_to_jupyter", attach).await.ok();
    one.kill();
    let live = || {
        let records = rusqlite::Connection::open(data.path().join("cellgate.db")).expect("the records");
        let sql = "SELECT count(*) FROM sandboxes WHERE status = 'running'";
        records.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count")
    };
    eventually("one record is left", SOON, || live() == 1).await;
    second.call("execute_code", json!({"code": "1"})).await.ok();
}

#[tokio::test]
async fn two_gateways_see_each_others_changes_of_one_workspace() {
    let data = TempDir::new().expect("a directory");
    let (one, other) = (on(data.path()).serve(), on(data.path()).serve());
    let (first, second) = (in_workspace(&one, "w").await, in_workspace(&other, "w").await);
    launch(&first, "box").await;
    second.call("list_notebooks", json!({})).await.ok();
    for (client, name) in [(&first, "a"), (&second, "b"), (&first, "c")] {
        let path = format!("{name}.ipynb");
        let open = json!({"notebook_name": name, "notebook_path": path, "mode": "create", "sandbox_name": "box"});
        client.call("use_notebook", open).await.ok();
    }
    for client in [&first, &second] {
        let open = client.call("list_notebooks", json!({})).await.ok();
        assert!(["a.ipynb", "b.ipynb", "c.ipynb"].iter().all(|path| open.text().contains(path)), "{}", open.text());
    }
}

#[tokio::test]
async fn what_a_sibling_ran_once_does_not_keep_a_sandbox_for_ever() {
    let data = TempDir::new().expect("a directory");
    let (one, other) = (on(data.path()).serve(), on(data.path()).serve());
    let client = Client::connect(one.url()).await;
    let launch = json!({"sandbox_name": "box", "idle_timeout_seconds": 4});
    client.call_within(LAUNCH, "launch_sandbox", launch).await.ok();
    let second = Client::connect(other.url()).await;
    second.call("execute_code", json!({"code": "1", "sandbox_name": "box"})).await.ok();
    eventually("it ends unused", Duration::from_secs(30), || marked(data.path()).is_empty()).await;
}

#[tokio::test]
async fn code_under_way_is_use_though_jupyter_does_not_answer() {
    let data = TempDir::new().expect("a directory");
    let gateway = on(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    let launch = json!({"sandbox_name": "box", "idle_timeout_seconds": 3});
    client.call_within(LAUNCH, "launch_sandbox", launch).await.ok();
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(18)\nprint('finished')";
    let mut run = client.start("execute_code", json!({"code": code, "progress_interval": 1}));
    run.progress_with("begun").await;
    let server = marked(data.path()).into_iter().find(|process| process.command.contains("start_jupyter.py"));
    let server = server.expect("it runs").pid;
    signal(server, "STOP");
    // Not a wait for something: idle time and the limit of an answer have to pass.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        assert!(!run.is_answered(), "it was ended");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    signal(server, "CONT");
    assert!(run.wait().await.ok().outputs().contains("finished"));
}
