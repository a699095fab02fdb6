//! The two eras of the protocol, the two transports, progress and cancelling.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Client, Desk, Era, Stdio, marked, shared};

/// A run that no test waits for.
const FOREVER: &str = "import time\nprint('began', flush=True)\nwhile True:\n    time.sleep(0.1)";

#[tokio::test]
async fn a_session_of_the_older_era_works_from_launch_to_result() {
    whole_session(Era::Legacy).await;
}

#[tokio::test]
async fn a_client_without_sessions_works_from_launch_to_result() {
    whole_session(Era::Modern).await;
}

async fn whole_session(era: Era) {
    let desk = Desk::of(era).await;
    assert_eq!(desk.client.session().is_some(), era == Era::Legacy);
    let file = desk.create("nb").await;
    desk.ok("insert_cell", json!({"cell_index": -1, "cell_type": "markdown", "cell_source": "# Title"})).await;
    let ran = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "6 * 7"})).await;
    assert_eq!(ran.outputs(), "42");
    assert_eq!(ran.get("status"), "ok");
    let read = desk.ok("read_cell", json!({"cell_id": ran.cell_id()})).await;
    assert_eq!(read.get("source"), "6 * 7");
    assert!(file.exists());
    assert_eq!(desk.ok("list_notebooks", json!({})).await.items()[0]["Name"], "nb");
}

#[tokio::test]
async fn two_sessions_at_once_have_their_own_pointers() {
    let (one, other) = (Desk::new().await, Desk::new().await);
    one.create("mine").await;
    other.refused(&["notebook.not_open"], "read_notebook", json!({"notebook_name": "mine"})).await;
    other.create("theirs").await;
    one.ok("insert_cell", json!({"cell_index": -1, "cell_type": "code", "cell_source": "'mine'"})).await;
    other.ok("insert_cell", json!({"cell_index": -1, "cell_type": "code", "cell_source": "'theirs'"})).await;
    one.ok("use_sandbox", json!({"sandbox_name": null})).await;
    assert_eq!(one.ok("read_cell", json!({"cell_index": 0})).await.get("source"), "'mine'");
    let read = other.ok("read_cell", json!({"cell_index": 0})).await;
    assert_eq!(read.get("source"), "'theirs'");
    other.ok("execute_code", json!({"code": "1"})).await;
}

#[tokio::test]
async fn clients_without_sessions_are_told_apart_by_their_name() {
    let (one, other) = (Desk::of(Era::Modern).await, Desk::of(Era::Modern).await);
    one.create("mine").await;
    other.refused(&["notebook.not_open"], "read_notebook", json!({"notebook_name": "mine"})).await;
    one.ok("read_notebook", json!({"notebook_name": "mine"})).await;
}

#[tokio::test]
async fn a_workspace_named_in_the_address_is_shared_by_those_who_name_it() {
    let desk = Desk::new().await;
    let url = format!("{}?workspace=agent-{}", shared().url(), desk.folder());
    let path = format!("{}/w.ipynb", desk.folder());
    let first = Client::connect_as(&url, Era::Legacy, "first", None).await;
    first.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
    first.call("use_notebook", json!({"notebook_name": "w", "notebook_path": path, "mode": "create"})).await.ok();
    let second = Client::connect_as(&url, Era::Modern, "second", None).await;
    second.call("read_notebook", json!({"notebook_name": "w"})).await.ok();
    desk.refused(&["notebook.not_open"], "read_notebook", json!({"notebook_name": "w"})).await;
}

#[tokio::test]
async fn a_header_that_disagrees_with_the_body_is_refused() {
    let http = crate::harness::http();
    let meta = |version: &str| json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}});
    for (version, method, code) in [("2026-07-28", "tools/call", -32020), ("2199-01-01", "tools/list", -32022)] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta(version)}});
        let request = http.post(shared().url()).header("accept", "application/json, text/event-stream");
        let request = request
            .header("content-type", "application/json")
            .header("mcp-protocol-version", version)
            .header("mcp-method", method);
        let response = request.body(body.to_string()).send().await.expect("an answer");
        let text = response.text().await.expect("a body");
        assert!(text.contains(&code.to_string()), "{version} {method}: {text}");
    }
}

#[tokio::test]
async fn progress_carries_the_newest_output_and_rises() {
    for era in [Era::Legacy, Era::Modern] {
        let desk = Desk::of(era).await;
        desk.create("nb").await;
        let code = "import time\nfor i in range(4):\n    print('tick', i, flush=True)\n    time.sleep(0.8)";
        let arguments = json!({"cell_index": -1, "cell_source": code, "progress_interval": 1});
        let (reply, notes) = desk.client.start("insert_execute_code_cell", arguments).wait_with_progress().await;
        assert!(reply.ok().outputs().contains("tick 3"));
        assert!(notes.len() >= 2, "{era:?}: {notes:?}");
        let values: Vec<f64> = notes.iter().filter_map(|note| note["progress"].as_f64()).collect();
        assert!(values.is_sorted() && values.windows(2).all(|pair| pair[0] < pair[1]), "{era:?}: {values:?}");
        assert!(
            notes.iter().any(|note| note["message"].as_str().is_some_and(|said| said.contains("tick"))),
            "{era:?}: {notes:?}"
        );
    }
}

#[tokio::test]
async fn a_client_that_asks_for_no_progress_gets_none() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let code = "import time; time.sleep(2.2); print('done')";
    let arguments = json!({"cell_index": -1, "cell_source": code, "progress_interval": 1, "stream": false});
    let (reply, notes) = desk.client.start("insert_execute_code_cell", arguments).wait_with_progress().await;
    assert!(reply.ok().outputs().contains("done"));
    assert!(notes.is_empty(), "{notes:?}");
}

#[tokio::test]
async fn cancelling_interrupts_the_kernel_and_the_next_call_runs_at_once() {
    for era in [Era::Legacy, Era::Modern] {
        let desk = Desk::of(era).await;
        desk.create("nb").await;
        desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "kept = 'state kept'"})).await;
        let arguments = json!({"cell_index": -1, "cell_source": FOREVER, "progress_interval": 1});
        let mut running = desk.client.start("insert_execute_code_cell", arguments);
        running.progress_with("began").await;
        running.cancel().await;
        let started = Instant::now();
        let next = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "print(kept)"})).await;
        assert_eq!(next.outputs().trim(), "state kept", "{era:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{era:?}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_queued_call_that_is_cancelled_interrupts_nothing() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let code = "import time\nprint('began', flush=True)\ntime.sleep(3)\nprint('finished')";
    let mut first = desk
        .client
        .start("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code, "progress_interval": 1}));
    first.progress_with("began").await;
    let marker = desk.path("was-run");
    let second = json!({"cell_index": -1, "cell_source": format!("open({marker:?}, 'w')"), "progress_interval": 1});
    let mut second = desk.client.start("insert_execute_code_cell", second);
    second.progress_with("").await;
    second.cancel().await;
    let reply = first.wait().await.ok();
    assert_eq!(reply.get("status"), "ok", "{}", reply.structured());
    assert!(reply.outputs().contains("finished"));
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "1"})).await;
    assert!(!marker.exists(), "the cancelled call ran");
}

#[tokio::test]
async fn over_standard_streams_every_line_is_json_rpc_and_nothing_stays_behind() {
    let mut stdio = Stdio::start().await;
    assert_eq!(stdio.request("tools/list", json!({})).await["result"]["tools"].as_array().map(Vec::len), Some(22));
    stdio.call("launch_sandbox", json!({"sandbox_name": "pipe"})).await.ok();
    let code = "import os\nstatus = os.system('echo from-child')\nprint('é')";
    let ran = stdio.call("execute_code", json!({"code": code})).await.ok();
    assert!(ran.outputs().contains("from-child") && ran.outputs().contains('é'), "{}", ran.outputs());
    assert!(stdio.call("execute_code", json!({})).await.is_error());
    assert!(!marked(stdio.data()).is_empty());
    stdio.close().await;
    assert!(marked(stdio.data()).is_empty(), "{:?}", marked(stdio.data()));
}

#[tokio::test]
async fn an_unknown_tool_is_refused_by_name() {
    let desk = Desk::new().await;
    let message = desk.client.request("tools/call", json!({"name": "no_such_tool", "arguments": {}})).await;
    assert!(message.to_string().contains("no_such_tool"), "{message}");
    assert!(message["error"]["code"].is_i64() || message["result"]["isError"] == true, "{message}");
}
