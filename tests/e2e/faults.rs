//! Parts that break under a running gateway.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Gateway, SmallDisk, marked, not_run, read_json, validate_notebook};

const LAUNCH: Duration = Duration::from_secs(900);

async fn working(name: &str) -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": name})).await.ok();
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "kept = 1"})).await.ok();
    (gateway, client)
}

fn kill_jupyter(gateway: &Gateway) {
    let server =
        marked(gateway.data()).into_iter().find(|process| process.command.contains("jupyter")).expect("Jupyter runs");
    server.kill();
}

#[tokio::test]
async fn a_jupyter_that_dies_is_a_sandbox_that_is_gone_and_the_name_can_be_launched_again() {
    let (gateway, client) = working("dies").await;
    kill_jupyter(&gateway);
    for (tool, arguments) in [
        ("execute_code", json!({"code": "1"})),
        ("list_files", json!({})),
        ("read_cell", json!({"cell_index": 0})),
        ("use_sandbox", json!({"sandbox_name": "dies"})),
    ] {
        let started = Instant::now();
        client.call(tool, arguments).await.refused(&["sandbox.gone"]).says("launch_sandbox");
        assert!(started.elapsed() < Duration::from_secs(10), "{tool}: {:?}", started.elapsed());
    }
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let statuses: Vec<&Value> =
        listed.get("result").as_array().unwrap().iter().map(|record| &record["status"]).collect();
    assert!(!statuses.contains(&&json!("running")), "{statuses:?}");
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "dies"})).await.ok();
    let read = client.call("read_cell", json!({"cell_index": 0, "notebook_name": "n"})).await.ok();
    assert_eq!(read.get("source"), "kept = 1");
    let fresh = client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "kept"})).await.ok();
    assert_eq!(fresh.get("exception")["ename"], "NameError");
    assert!(gateway.is_up());
}

#[tokio::test]
async fn a_jupyter_that_dies_during_a_run_is_told_within_ten_seconds() {
    let (gateway, client) = working("mid").await;
    let code = "import time\nprint('began', flush=True)\ntime.sleep(60)";
    let mut running = client
        .start("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    kill_jupyter(&gateway);
    let started = Instant::now();
    let reply = running.wait().await.refused(&["sandbox.gone", "jupyter.unreachable", "kernel.died"]);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(reply.outputs().contains("began"), "{}", reply.outputs());
    validate_notebook(&gateway.files("mid").join("n.ipynb"));
    client.call("terminate_sandbox", json!({"sandbox_name": "mid"})).await.ok();
    crate::harness::eventually("nothing of it is left", Duration::from_secs(10), || marked(gateway.data()).is_empty())
        .await;
}

#[tokio::test]
async fn on_a_full_disk_an_edit_says_so_and_the_file_stays_whole() {
    let gateway = Gateway::start();
    let files = gateway.files("full");
    std::fs::create_dir_all(&files).expect("a folder");
    let disk = match SmallDisk::mount(&files, 512) {
        Ok(disk) => disk,
        Err(reason) => return not_run("on_a_full_disk_an_edit_says_so_and_the_file_stays_whole", &reason),
    };
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "full"})).await.ok();
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    client.call("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": "print('ran')"})).await.ok();
    let file = files.join("n.ipynb");
    let before = read_json(&file);
    disk.fill();

    let source = "y".repeat(100_000);
    let refused = client.call("insert_cell", json!({"cell_index": 0, "cell_type": "raw", "cell_source": source})).await;
    assert!(refused.is_error(), "an edit was stored on a full disk");
    let said = refused.text().to_lowercase();
    assert!(said.contains("disk") || said.contains("space"), "{said}");
    assert_eq!(read_json(&file), before);

    // A run's output can't be stored: the answer says that too, and still has the output.
    let ran = client.call("execute_cell", json!({"cell_index": 0})).await;
    let said = ran.text().to_lowercase();
    assert!(said.contains("disk") || said.contains("space") || !ran.is_error(), "{said}");
    validate_notebook(&file);

    disk.free();
    client.call("insert_cell", json!({"cell_index": 0, "cell_type": "raw", "cell_source": source})).await.ok();
    validate_notebook(&file);
    assert!(gateway.is_up());
}

#[tokio::test]
async fn a_notebook_that_is_deleted_or_spoilt_while_open_is_said_and_comes_back() {
    let (gateway, client) = working("file").await;
    let file = gateway.files("file").join("n.ipynb");
    let content = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let insert = json!({"cell_index": 0, "cell_type": "code", "cell_source": "x"});
    client.call("insert_cell", insert.clone()).await.refused(&["notebook.not_found", "file.not_found"]);
    assert!(!file.exists(), "an edit made a file that was deleted");
    for spoilt in ["", "{\"cells\": [", "[]"] {
        std::fs::write(&file, spoilt).unwrap();
        client.call("read_notebook", json!({"notebook_name": "n"})).await.refused(&["notebook.invalid"]);
        client.call("insert_cell", insert.clone()).await.refused(&["notebook.invalid"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), spoilt);
    }
    std::fs::write(&file, content).unwrap();
    client.call("insert_cell", insert).await.ok();
    validate_notebook(&file);
}
