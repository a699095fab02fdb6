//! Calls that outlive their client: the Tasks extension, for clients that take tasks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::harness::{Client, Desk, Era, Reply, Start, shared};

const SOON: Duration = Duration::from_secs(20);
const TICKS: &str = "import time\nfor n in range(6):\n    print('tick', n, flush=True)\n    time.sleep(0.7)";

async fn client(url: &str, era: Era, name: &str, token: Option<&str>) -> Client {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let client = Client::connect_able(url, (era, name, token), capabilities).await;
    assert!(client.hello()["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    client
}

/// A client that takes tasks, beside a desk in the shared sandbox.
async fn beside(desk: &Desk, era: Era) -> Client {
    let url = format!("{}?workspace={}", shared().url(), desk.folder());
    let client = client(&url, era, "tasks", None).await;
    client.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
    client
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    client.request("tools/call", json!({"name": tool, "arguments": arguments})).await["result"].clone()
}

async fn look(client: &Client, id: &str) -> Value {
    let message = client.request("tasks/get", json!({"taskId": id})).await;
    assert!(message["result"].is_object(), "{message}");
    message["result"].clone()
}

/// Waits until a task has that status.
async fn becomes(client: &Client, id: &str, status: &str) -> Value {
    let until = Instant::now() + SOON;
    loop {
        let task = look(client, id).await;
        if task["status"] == status {
            return task;
        }
        assert!(Instant::now() < until, "not {status}: {task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_long_run_goes_on_without_its_client_and_its_answer_is_kept() {
    for era in [Era::Legacy, Era::Modern] {
        let desk = Desk::of(era).await;
        let asking = beside(&desk, era).await;
        let path = format!("{}/nb.ipynb", desk.folder());
        let notebook = json!({"notebook_name": "nb", "notebook_path": path, "mode": "create"});
        asking.call("use_notebook", notebook).await.ok();
        let begun = Instant::now();
        let cell = json!({"cell_index": -1, "cell_source": TICKS, "progress_interval": 1});
        let handle = call(&asking, "insert_execute_code_cell", cell).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!((&handle["resultType"], &handle["status"]), (&json!("task"), &json!("working")), "{handle}");
        let id = handle["taskId"].as_str().expect("an id").to_owned();
        drop(asking);
        // Another connection looks at it.
        let looking = beside(&desk, era).await;
        let until = Instant::now() + SOON;
        while !look(&looking, &id).await["statusMessage"].to_string().contains("tick") {
            assert!(Instant::now() < until, "it says how it is getting on");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let task = becomes(&looking, &id, "completed").await;
        let reply = Reply::new("insert_execute_code_cell", json!({"result": task["result"]})).ok();
        assert!(reply.outputs().contains("tick 0") && reply.outputs().contains("tick 5"), "{}", reply.outputs());
        assert!(desk.read("nb.ipynb")["cells"][0]["outputs"].to_string().contains("tick 5"));
        // It is there again for whoever asks again.
        assert_eq!(look(&looking, &id).await["status"], "completed");
    }
}

#[tokio::test]
async fn what_is_over_soon_is_answered_at_once() {
    let desk = Desk::new().await;
    let client = beside(&desk, Era::Legacy).await;
    client.call("execute_code", json!({"code": "print('quick')"})).await.ok().says("quick");
    let failed = client.call("execute_code", json!({"code": "1", "notebook_name": "none"})).await;
    failed.refused(&["notebook.not_open"]);
}

#[tokio::test]
async fn a_task_that_is_cancelled_interrupts_its_run() {
    let desk = Desk::new().await;
    let client = beside(&desk, Era::Legacy).await;
    let handle = call(&client, "execute_code", json!({"code": "import time\ntime.sleep(60)"})).await;
    let id = handle["taskId"].as_str().expect("an id");
    assert!(client.request("tasks/cancel", json!({"taskId": id})).await["result"].is_object());
    becomes(&client, id, "cancelled").await;
    client.call_within(SOON, "execute_code", json!({"code": "print('next')"})).await.ok().says("next");
}

#[tokio::test]
async fn another_principals_task_is_as_if_it_were_not() {
    let files = TempDir::new().expect("a directory");
    let tokens = files.path().join("tokens");
    let line = |who: &str| format!("acme {who} {:x}\n", Sha256::digest(format!("token-of-{who}")));
    std::fs::write(&tokens, line("ann") + &line("bob")).expect("written");
    let start = Start::default().argument("--tokens").argument(&tokens.to_string_lossy());
    let gateway = start.argument("--allow-unisolated").serve();
    let ann = client(gateway.url(), Era::Modern, "ann", Some("token-of-ann")).await;
    let bob = client(gateway.url(), Era::Modern, "bob", Some("token-of-bob")).await;
    // The launch itself may take long: a task as well.
    let launched = call(&ann, "launch_sandbox", json!({"sandbox_name": "box"})).await;
    if let Some(id) = launched["taskId"].as_str() {
        becomes(&ann, id, "completed").await;
    }
    let handle = call(&ann, "execute_code", json!({"code": "import time\ntime.sleep(4)"})).await;
    let id = handle["taskId"].as_str().expect("an id");
    let never = "00000000-0000-4000-8000-000000000000";
    for method in ["tasks/get", "tasks/cancel"] {
        let foreign = bob.request(method, json!({"taskId": id})).await["error"].to_string();
        let unknown = bob.request(method, json!({"taskId": never})).await["error"].to_string();
        assert_eq!(foreign.replace(id, never), unknown, "{method}");
    }
    assert_eq!(becomes(&ann, id, "completed").await["result"]["isError"], false);
    // Whoever doesn't take tasks can't ask for them, and gets none.
    let plain = Client::connect_as(gateway.url(), Era::Modern, "ann", Some("token-of-ann")).await;
    assert_eq!(plain.request("tasks/get", json!({"taskId": id})).await["error"]["code"], -32_021);
    plain.call("execute_code", json!({"code": "import time\ntime.sleep(2)"})).await.ok();
}
