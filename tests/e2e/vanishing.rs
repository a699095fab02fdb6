//! What a run works on may go while it runs: its cell, its file, its sandbox. Nothing of it is lost.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Client, Desk, Gateway, eventually};

const SLOW: &str = "import time\nprint('began', flush=True)\ntime.sleep(2)\nprint('ended')";

#[tokio::test]
async fn a_cell_that_is_deleted_while_it_runs_still_answers_its_outputs() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let arguments = json!({"cell_index": 0, "cell_source": SLOW, "progress_interval": 1});
    let mut running = desk.client.start("insert_execute_code_cell", arguments);
    running.progress_with("began").await;
    desk.ok("delete_cell", json!({"cell_indices": [0]})).await;
    let reply = running.wait().await.refused(&["cell.not_found"]);
    assert!(reply.text().contains("began\nended") && reply.text().contains("could not be saved"), "{}", reply.text());
}

#[tokio::test]
async fn a_file_that_is_removed_while_a_cell_runs_is_said_and_not_made_again() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let until_removed = format!(
        "import os, time\nprint('began', flush=True)\nwhile os.path.exists({file:?}): time.sleep(0.02)\nprint('ended')"
    );
    let arguments = json!({"cell_index": 0, "cell_source": until_removed, "progress_interval": 1});
    let mut running = desk.client.start("insert_execute_code_cell", arguments);
    running.progress_with("began").await;
    // Between two saves: one that has read the file already writes it again, as any editor of Jupyter's would.
    let saved = || desk.read("nb.ipynb")["cells"][0]["outputs"] != json!([]);
    eventually("the outputs so far are saved", Duration::from_secs(30), saved).await;
    std::fs::remove_file(&file).unwrap();
    let reply = running.wait().await.refused(&["notebook.not_found"]);
    assert!(reply.text().contains("began\nended"), "{}", reply.text());
    assert!(!file.exists());
}

#[tokio::test]
async fn a_sandbox_that_is_terminated_under_a_run_is_gone_and_not_a_result() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    client.call("launch_sandbox", json!({"sandbox_name": "ends"})).await.ok();
    client.call("execute_code", json!({"code": "1"})).await.ok();
    let code = "import time\nprint('began', flush=True)\ntime.sleep(60)";
    let mut running = client.start("execute_code", json!({"code": code, "timeout": 90, "progress_interval": 1}));
    running.progress_with("began").await;
    client.call("terminate_sandbox", json!({"sandbox_name": "ends"})).await.ok();
    let reply = running.wait().await.refused(&["sandbox.gone"]);
    assert!(reply.text().contains("began"), "{}", reply.text());
}

#[tokio::test]
async fn cells_that_share_an_id_can_be_run_by_their_index() {
    let desk = Desk::new().await;
    let cell = |source: &str| json!({"cell_type": "code", "id": "same", "metadata": {}, "source": source, "outputs": [], "execution_count": null});
    let notebook = json!({"cells": [cell("'one'"), cell("'two'")], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    desk.write("nb.ipynb", notebook.to_string());
    desk.open("nb").await.ok();
    desk.refused(&["cell.ambiguous"], "execute_cell", json!({"cell_id": "same"})).await;
    let ran = desk.ok("execute_cell", json!({"cell_index": 1})).await;
    assert_eq!(ran.outputs().trim(), "'two'");
    let saved = desk.read("nb.ipynb");
    assert_eq!(saved["cells"][0]["outputs"], json!([]));
    assert_eq!(saved["cells"][1]["execution_count"], 1);
}

#[tokio::test]
async fn a_hidden_notebook_is_refused_as_a_path() {
    let desk = Desk::new().await;
    let arguments = json!({"notebook_name": "h", "notebook_path": ".hidden.ipynb", "mode": "create"});
    desk.refused(&["path.invalid"], "use_notebook", arguments).await;
}
