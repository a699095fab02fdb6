//! Jupyter servers that the gateway did not start: attaching, losing and letting go of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Desk, ForeignJupyter, read_json, shared, validate_notebook};

async fn attached() -> (ForeignJupyter, Client) {
    let desk = Desk::new().await;
    let server = ForeignJupyter::start(shared().data()).await;
    let client = desk.client.clone();
    client.call("connect_to_jupyter", json!({"jupyter_url": server.url(), "jupyter_token": server.token()})).await.ok();
    (server, client)
}

async fn record(client: &Client, name: &str) -> Option<Value> {
    let reply = client.call("list_sandboxes", json!({})).await.ok();
    reply.get("result").as_array().unwrap().iter().find(|record| record["name"] == name).cloned()
}

#[tokio::test]
async fn an_attached_server_is_a_sandbox_by_its_address_and_is_only_let_go() {
    let (server, client) = attached().await;
    let first = record(&client, server.name()).await.expect("it is listed");
    assert_eq!(
        (&first["active"], &first["variant"], &first["status"]),
        (&json!(true), &json!("jupyter-server"), &json!("running"))
    );
    // The same address with a slash is the same sandbox.
    let again = json!({"jupyter_url": format!("{}/", server.url()), "jupyter_token": server.token()});
    client.call("connect_to_jupyter", again).await.ok();
    assert_eq!(record(&client, server.name()).await.unwrap()["id"], first["id"]);

    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    let ran = client
        .call("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "import os; print(os.getcwd())"}))
        .await
        .ok();
    assert_eq!(ran.outputs().trim(), server.root().canonicalize().unwrap().to_str().unwrap());
    validate_notebook(&server.root().join("n.ipynb"));
    assert_eq!(server.kernels().await.len(), 1);

    let gone = client.call("terminate_sandbox", json!({"sandbox_name": server.name()})).await.ok();
    assert!(gone.text().to_lowercase().contains("detach"), "{}", gone.text());
    assert!(server.is_up().await, "a server that is not ours was ended");
    let listed = record(&client, server.name()).await;
    assert!(listed.is_none_or(|record| record["status"] != "running"));
}

#[tokio::test]
async fn the_token_of_an_attached_server_never_appears() {
    let (server, client) = attached().await;
    let code = format!("print('{}')", server.token());
    let ran = client.call("execute_code", json!({"code": code})).await.ok();
    assert!(!ran.result().to_string().contains(server.token()), "{}", ran.structured());
    assert!(ran.outputs().contains("[token]"));
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    assert!(!listed.result().to_string().contains(server.token()));
    let in_url = json!({"jupyter_url": format!("{}/?token={}", server.url(), server.token())});
    let reply = client.call("connect_to_jupyter", in_url).await.ok();
    assert!(!reply.result().to_string().contains(server.token()));
    assert!(!shared().log().contains(server.token()), "it is in the log");
}

#[tokio::test]
async fn a_wrong_or_missing_token_is_told_with_the_servers_address() {
    let desk = Desk::new().await;
    let server = ForeignJupyter::start(shared().data()).await;
    for token in [json!("wrong-token-1"), Value::Null, json!("")] {
        let arguments = json!({"jupyter_url": server.url(), "jupyter_token": token});
        let refused = desk.refused(&["jupyter.unauthorized"], "connect_to_jupyter", arguments).await;
        assert!(refused.text().contains(server.name()) && refused.text().contains("token"), "{}", refused.text());
        assert!(
            !refused.result().to_string().contains("wrong-token-1") && !refused.text().contains("xsrf"),
            "{}",
            refused.text()
        );
    }
    // A sandbox of the gateway's own is just as closed to who has no token.
    let url = record(&desk.client, "shared").await.unwrap()["url"].clone();
    let arguments = json!({"jupyter_url": url, "jupyter_token": "wrong-token-1"});
    desk.refused(&["jupyter.unauthorized"], "connect_to_jupyter", arguments).await;
    assert!(record(&desk.client, server.name()).await.is_none_or(|record| record["status"] != "running"));
}

#[tokio::test]
async fn what_is_no_jupyter_or_not_there_is_told_apart() {
    let desk = Desk::new().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap();
    let refused = desk
        .refused(&["jupyter.unreachable"], "connect_to_jupyter", json!({"jupyter_url": format!("http://{closed}/")}))
        .await;
    assert!(refused.text().contains(&closed.to_string()), "{}", refused.text());
    let no_jupyter = json!({"jupyter_url": format!("{}/livez", shared().origin())});
    let other = desk.client.call("connect_to_jupyter", no_jupyter).await;
    assert!(other.is_error());
    assert_ne!(other.text(), refused.text());
    for url in ["ftp://127.0.0.1/", "nonsense", "", "http://", "file:///etc/passwd"] {
        desk.refused(&["arguments.invalid"], "connect_to_jupyter", json!({"jupyter_url": url})).await;
    }
    desk.refused(
        &["arguments.invalid"],
        "connect_to_jupyter",
        json!({"jupyter_url": "http://127.0.0.1:1/", "document_provider": "datalayer"}),
    )
    .await;
}

#[tokio::test]
async fn a_kernel_that_somebody_deletes_is_told_within_ten_seconds_and_replaced() {
    let (server, client) = attached().await;
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    let code = "import time\nprint('began', flush=True)\ntime.sleep(60)";
    let mut running =
        client.start("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    let kernel = server.kernels().await[0]["id"].as_str().unwrap().to_owned();
    server.delete_kernel(&kernel).await;
    let started = Instant::now();
    let reply = running.wait().await.refused(&["kernel.died", "kernel.not_found"]);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(reply.outputs().contains("began"));
    let next = client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "1 + 1"})).await.ok();
    assert!(next.outputs().contains('2'));
    // The same while it is idle.
    let kernel = server.kernels().await[0]["id"].as_str().unwrap().to_owned();
    server.delete_kernel(&kernel).await;
    let next = client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "2 + 2"})).await;
    assert!(next.is_error() || next.outputs().contains('4'), "{}", next.structured());
    client.call("restart_notebook", json!({"notebook_name": "n"})).await.ok();
    client.call("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "3 + 3"})).await.ok().says("6");
}

#[tokio::test]
async fn a_server_that_goes_away_in_the_middle_is_told_within_ten_seconds() {
    let (mut server, client) = attached().await;
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    let code = "import os\nprint('began', os.getpid(), flush=True)\nimport time; time.sleep(20)";
    let mut running =
        client.start("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    server.kill();
    let started = Instant::now();
    let reply = running.wait().await;
    assert!(
        reply.is_error() && started.elapsed() < Duration::from_secs(10),
        "{:?}: {}",
        started.elapsed(),
        reply.structured()
    );
    assert!(["jupyter.unreachable", "sandbox.gone", "kernel.died"].contains(&reply.code()), "{}", reply.code());
    assert!(reply.outputs().contains("began"));
    let next = client.call("list_files", json!({})).await.refused(&["jupyter.unreachable", "sandbox.gone"]);
    assert!(!next.text().is_empty());
    read_json(&server.root().join("n.ipynb"));
}
