//! What is there again after a restart of the gateway, planned or not; and gateways beside each other.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    Client, Desk, Era, ForeignJupyter, Gateway, SmallDisk, Start, Stdio, case, eventually, marked, not_run, shared,
};

const LAUNCH: Duration = Duration::from_secs(900);

async fn launch(client: &Client, name: &str) -> Value {
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": name})).await.ok().get("sandbox").clone()
}

async fn record(client: &Client, name: &str) -> Value {
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let records = listed.get("result").as_array().expect("a list").clone();
    records.into_iter().find(|record| record["name"] == name).unwrap_or_default()
}

fn kept(data: &Path) -> Gateway {
    Start::default().data(data).env("CELLGATE_KEEP_SANDBOXES", "true").serve()
}

#[tokio::test]
async fn pointers_notebooks_and_kernels_are_back_for_a_client_that_starts_no_new_session() {
    let data = TempDir::new().expect("a directory");
    for era in [Era::Legacy, Era::Modern] {
        let gateway = kept(data.path());
        let client = Client::connect_as(gateway.url(), era, "editor", None).await;
        launch(&client, "box").await;
        let path = format!("{era:?}.ipynb");
        let notebook = json!({"notebook_name": "n", "notebook_path": path, "mode": "create"});
        client.call("use_notebook", notebook).await.ok();
        client.call("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "x = 41"})).await.ok();
        client.call("execute_code", json!({"code": "y = 1", "sandbox_name": "box"})).await.ok();
        gateway.kill();
        let killed = kept(data.path());
        let client = client.at(killed.url());
        // Neither the notebook nor the sandbox is named: both are pointers.
        let ran = client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "x + 1"})).await.ok();
        assert!(ran.outputs().contains("42"), "{era:?}: {}", ran.outputs());
        let ran = client.call("execute_code", json!({"code": "y", "sandbox_name": "box"})).await.ok();
        assert_eq!(ran.outputs().trim(), "1", "{era:?}: the kernel aside is another");
        assert!(killed.end_by("TERM").await.success());
        let stopped = kept(data.path());
        let client = client.at(stopped.url());
        let ran = client.call("execute_code", json!({"code": "x + 2"})).await.ok();
        assert_eq!(ran.outputs().trim(), "43", "{era:?}");
        assert_eq!(record(&client, "box").await["attached_notebooks"], json!(["n"]));
        client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
        assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    }
}

#[tokio::test]
async fn a_planned_stop_ends_sandboxes_and_their_next_life_has_files_and_notebooks() {
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    launch(&client, "box").await;
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    assert!(gateway.end_by("TERM").await.success());
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    let next = Start::default().data(data.path()).serve();
    let client = client.at(next.url());
    client
        .call("read_notebook", json!({"notebook_name": "n"}))
        .await
        .refused(&["sandbox.gone"])
        .says("the gateway was stopped");
    let again = client.call("launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(again.text().contains("there again"), "{}", again.text());
    client.call("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "1"})).await.ok();
}

#[tokio::test]
async fn a_session_that_was_ended_is_gone_with_the_kernel_it_had_aside() {
    let desk = Desk::new().await;
    let client = Client::connect(shared().url()).await;
    let ran = client.call("execute_code", json!({"code": "1", "sandbox_name": "shared"})).await.ok();
    let kernel = ran.get("kernel_id").as_str().expect("an id").to_owned();
    assert!(desk.ok("list_kernels", json!({})).await.text().contains(&kernel));
    client.end_session().await;
    assert!(!desk.ok("list_kernels", json!({})).await.text().contains(&kernel));
    assert_eq!(client.status_of("list_sandboxes").await, 404);
}

#[tokio::test]
async fn two_editors_and_a_server_on_one_data_directory_leave_each_others_sandboxes_alone() {
    let data = TempDir::new().expect("a directory");
    let server = Start::default().data(data.path()).serve();
    let client = Client::connect(server.url()).await;
    launch(&client, "served").await;
    let mut one = Stdio::start_in(data.path()).await;
    let mut other = Stdio::start_in(data.path()).await;
    one.call("launch_sandbox", json!({"sandbox_name": "one"})).await.ok();
    other.call("launch_sandbox", json!({"sandbox_name": "other"})).await.ok();
    for (stdio, name) in [(&mut one, "one"), (&mut other, "other")] {
        let ran = stdio.call("execute_code", json!({"code": "import os; print(os.getcwd())"})).await.ok();
        assert!(ran.outputs().trim().ends_with(name), "{name}: {}", ran.outputs());
    }
    one.close().await;
    for name in ["served", "other"] {
        assert_eq!(record(&client, name).await["status"], "running", "{name}");
        client.call("execute_code", json!({"code": "1", "sandbox_name": name})).await.ok();
    }
    assert_eq!(record(&client, "one").await["status"], "terminated");
    // Ended by its owner through another gateway: the one that looks after it does it.
    client.call("terminate_sandbox", json!({"sandbox_name": "other"})).await.ok();
    let gone = other.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.gone"]);
    assert!(gone.text().contains("terminated by its owner"), "{}", gone.text());
    // What a killed one leaves, a living one goes on with.
    other.call("launch_sandbox", json!({"sandbox_name": "left"})).await.ok();
    other.kill().await;
    let alive = || marked(data.path()).iter().any(|process| process.command.contains("start_jupyter"));
    assert!(alive());
    let mut taken = json!(null);
    for _ in 0..200 {
        let ran = client.call("execute_code", json!({"code": "'on'", "sandbox_name": "left"})).await.ok();
        assert!(ran.outputs().contains("on"));
        taken = json!(server.log().contains("going on with a sandbox"));
        if taken == true {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(taken, true, "nobody goes on with it");
    assert!(server.end_by("TERM").await.success());
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
}

#[tokio::test]
async fn an_attached_server_is_attached_again_with_its_token_which_is_nowhere_to_be_read() {
    let desk = Desk::new().await;
    let foreign = ForeignJupyter::start(shared().data()).await;
    drop(desk);
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    let url = json!({"jupyter_url": foreign.url(), "jupyter_token": foreign.token()});
    client.call("connect_to_jupyter", url).await.ok();
    client.call("execute_code", json!({"code": "1"})).await.ok();
    gateway.kill();
    // The key is changed while it is attached.
    let rotated = Start::default().data(data.path()).command("rotate-key").output().expect("it runs");
    assert!(rotated.status.success(), "{rotated:?}");
    for signal in ["KILL", "TERM"] {
        let next = Start::default().data(data.path()).serve();
        let client = client.at(next.url());
        let ran = client.call("execute_code", json!({"code": "import os; os.environ['HOME']"})).await.ok();
        assert!(ran.outputs().contains(&*foreign.root().to_string_lossy()), "{}", ran.outputs());
        next.signal(signal);
        eventually("the gateway ends", Duration::from_secs(20), || !next.is_up()).await;
        assert!(foreign.is_up().await);
    }
    assert_nowhere(data.path(), foreign.token());
    // Without the key that sealed it the token can't be had, and that is said.
    std::fs::write(data.path().join("master.key"), "ab".repeat(32)).expect("another key");
    let next = Start::default().data(data.path()).serve();
    let client = client.at(next.url());
    let gone = client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.gone"]);
    assert!(gone.text().contains("master key was changed"), "{}", gone.text());
}

/// No file below the folder holds these bytes.
fn assert_nowhere(folder: &Path, secret: &str) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            assert_nowhere(&path, secret);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds the secret", path.display());
        }
    }
}

#[tokio::test]
async fn an_existing_jupyter_is_the_default_sandbox() {
    let desk = Desk::new().await;
    let foreign = ForeignJupyter::start(shared().data()).await;
    drop(desk);
    let token = TempDir::new().expect("a directory");
    let file = token.path().join("token");
    std::fs::write(&file, format!("{}\n", foreign.token())).expect("written");
    let file = file.to_string_lossy().into_owned();
    for start in [
        Start::default().env("JUPYTER_URL", foreign.url()).env("JUPYTER_TOKEN", foreign.token()),
        Start::default()
            .argument("--jupyter-url")
            .argument(foreign.url())
            .argument("--jupyter-token-file")
            .argument(&file),
    ] {
        let gateway = start.serve();
        let client = Client::connect(gateway.url()).await;
        let notebook = json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"});
        let opened = client.call("use_notebook", notebook).await.ok();
        assert!(opened.text().contains(foreign.name()), "{}", opened.text());
        let ran = client.call("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "40 + 2"})).await.ok();
        assert!(ran.outputs().contains("42"), "{}", ran.outputs());
        assert!(marked(gateway.data()).is_empty(), "a sandbox was launched all the same");
        assert!(!gateway.log().contains(foreign.token()));
        std::fs::remove_file(foreign.root().join("n.ipynb")).expect("it was there");
    }
}

#[tokio::test]
async fn calls_in_flight_finish_or_are_told_when_the_gateway_is_told_to_stop() {
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).env("CELLGATE_DRAIN", "4").serve();
    let client = Client::connect(gateway.url()).await;
    launch(&client, "box").await;
    launch(&client, "other").await;
    let run = |sandbox: &str, code: &str| {
        let code = format!("print('begun', flush=True)\n{code}");
        client.start("execute_code", json!({"code": code, "sandbox_name": sandbox, "progress_interval": 1}))
    };
    let mut short = run("box", "import time; time.sleep(2.5); print('finished')");
    let mut long = run("other", "import time; time.sleep(60)");
    short.progress_with("begun").await;
    long.progress_with("begun").await;
    gateway.signal("TERM");
    assert!(short.wait().await.ok().outputs().contains("finished"));
    let told = long.wait().await.refused(&["execution.cancelled"]);
    assert!(told.text().contains("told to stop") && told.outputs().contains("begun"), "{}", told.text());
    eventually("the gateway ends", Duration::from_secs(20), || !gateway.is_up()).await;
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
}

#[tokio::test]
async fn on_a_full_disk_a_sandbox_ends_all_the_same_and_its_name_is_free_later() {
    let data = TempDir::new().expect("a directory");
    let disk = match SmallDisk::mount(data.path(), 4096) {
        Ok(disk) => disk,
        Err(reason) => {
            return not_run("on_a_full_disk_a_sandbox_ends_all_the_same_and_its_name_is_free_later", &reason);
        }
    };
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    launch(&client, "box").await;
    disk.fill();
    client
        .call("launch_sandbox", json!({"sandbox_name": "more"}))
        .await
        .refused(&["internal", "sandbox.launch_failed"]);
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    assert_eq!(record(&client, "box").await["status"], "terminated");
    disk.free();
    launch(&client, "box").await;
    assert_eq!(record(&client, "box").await["status"], "running");
}

#[tokio::test]
async fn ids_of_cells_that_their_file_does_not_store_keep_working_over_a_restart_and_a_new_life() {
    let data = TempDir::new().expect("a directory");
    let mut gateway = Start::default().data(data.path()).serve();
    let mut client = Client::connect(gateway.url()).await;
    launch(&client, "box").await;
    std::fs::copy(case("01_v44_no_ids.ipynb"), gateway.files("box").join("old.ipynb")).expect("copied");
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "old.ipynb"})).await.ok();
    let cells = async |client: &Client| {
        let read = client.call("read_notebook", json!({"notebook_name": "n"})).await.ok();
        let cells = read.get("cells").as_array().expect("cells").clone();
        cells.iter().map(|cell| cell["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let before = cells(&client).await;
    for signal in ["KILL", "TERM"] {
        gateway.signal(signal);
        eventually("the gateway ends", Duration::from_secs(20), || !gateway.is_up()).await;
        gateway = Start::default().data(data.path()).serve();
        client = client.at(gateway.url());
        launch(&client, "box").await;
        assert_eq!(cells(&client).await, before, "after {signal}");
        client.call("read_cell", json!({"cell_id": before[0]})).await.ok();
    }
}
