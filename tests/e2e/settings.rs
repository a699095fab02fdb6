//! What an operator sets, and that it is kept.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Client, Gateway, Start, eventually, marked};

const LAUNCH: Duration = Duration::from_secs(900);

async fn launched(start: Start) -> (Gateway, Client) {
    let gateway = start.serve();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    (gateway, client)
}

#[tokio::test]
async fn default_and_ceiling_of_the_time_limit_hold_in_every_tool_that_executes() {
    let start = Start::default().env("CELLGATE_EXECUTION_TIMEOUT", "2").argument("--execution-ceiling").argument("4");
    let (_gateway, client) = launched(start).await;
    let code = "import time; time.sleep(30)";
    let cell = json!({"cell_index": 0, "cell_type": "code", "cell_source": code});
    client.call("insert_cell", cell).await.ok();
    for (asked, least, most) in [(0, 1.5, 3.8), (60, 3.5, 7.5)] {
        for (tool, mut arguments) in [
            ("execute_code", json!({"code": code})),
            ("execute_cell", json!({"cell_index": 0})),
            ("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code})),
        ] {
            arguments["timeout"] = json!(asked);
            // The first call of a kernel waits for the kernel, and its clock does not.
            client.call("execute_code", json!({"code": "1", "notebook_name": "n"})).await.ok();
            let started = Instant::now();
            client.call(tool, arguments).await.refused(&["execution.timeout"]);
            let took = started.elapsed().as_secs_f64();
            assert!((least..most).contains(&took), "{tool} with timeout {asked}: {took} s");
        }
    }
}

#[tokio::test]
async fn one_sandbox_more_than_allowed_is_refused_until_one_ends() {
    let (_gateway, client) = launched(Start::default().env("CELLGATE_MAX_SANDBOXES", "1")).await;
    client.call("launch_sandbox", json!({"sandbox_name": "more"})).await.refused(&["sandbox.limit"]).says("box");
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    client.call("launch_sandbox", json!({"sandbox_name": "more"})).await.ok();
}

#[tokio::test]
async fn without_automatic_launches_a_call_asks_for_one() {
    let gateway = Start::default().env("CELLGATE_AUTO_LAUNCH", "false").serve();
    let client = Client::connect(gateway.url()).await;
    client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.none"]).says("launch_sandbox");
    client.call("list_files", json!({})).await.refused(&["sandbox.none"]);
    assert!(marked(gateway.data()).is_empty());
}

#[tokio::test]
async fn an_unused_sandbox_ends_after_its_idle_time_and_says_so_and_a_busy_one_does_not() {
    let (gateway, client) = launched(Start::default().env("CELLGATE_IDLE_TIMEOUT", "4")).await;
    let busy = client.call("execute_code", json!({"code": "import time; time.sleep(8); print('survived')"})).await;
    assert!(busy.ok().outputs().contains("survived"));
    eventually("the sandbox ends", Duration::from_secs(60), || marked(gateway.data()).is_empty()).await;
    let mut status = json!("running");
    for _ in 0..100 {
        status = client.call("list_sandboxes", json!({})).await.ok().get("result")[0]["status"].clone();
        if status == "terminated" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, "terminated");
    let gone = client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.gone"]);
    assert!(gone.text().contains("not used for 4 s"), "{}", gone.text());
    assert!(gateway.files("box").join("n.ipynb").exists());
}

#[tokio::test]
async fn the_limits_of_an_answer_can_be_lowered() {
    let start = Start::default().env("CELLGATE_TEXT_LIMIT", "2000").env("CELLGATE_IMAGE_LIMIT", "0");
    let (_gateway, client) = launched(start).await;
    let cut = client.call("execute_code", json!({"code": "print('HEAD' + 'x' * 9000 + 'TAIL')"})).await.ok();
    assert!(cut.text().chars().count() <= 2300, "{}", cut.text().chars().count());
    assert!(cut.text().contains("HEAD") && cut.text().contains("TAIL"), "{}", cut.text());
    assert!(cut.outputs().contains(&"x".repeat(9000)), "the structured half is cut too");
    let plot = "import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()";
    let image = client.call("execute_code", json!({"code": plot})).await.ok();
    let entry = image.get("outputs").as_array().unwrap().iter().find(|output| output.is_object()).unwrap().clone();
    assert!(entry.get("data").is_none() && entry["sha256"].is_string(), "{entry}");
    assert_eq!(image.images().len(), 1);
}

#[tokio::test]
async fn a_host_that_was_listed_is_answered() {
    let gateway = Start::default().env("CELLGATE_ALLOWED_HOSTS", "gateway.ns.svc").serve();
    let http = crate::harness::http();
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    for (host, status) in [("gateway.ns.svc:8080", 200), ("gateway.ns.svc", 200), ("evil.example", 403)] {
        let request = http.post(gateway.url()).header("host", host).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream").body(body.clone());
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), status, "{host}");
    }
}

#[test]
fn a_setting_that_does_not_exist_is_refused_with_the_nearest() {
    let data = tempfile::tempdir().expect("a directory");
    let start = Start::default().data(data.path()).env("CELLGATE_MAX_SANDBOXS", "3");
    let output = start.command("serve").stdin(std::process::Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.to_lowercase().contains("max_sandboxes"), "{said}");
}

#[test]
fn doctor_fails_when_the_configured_provider_cannot_run() {
    let data = tempfile::tempdir().expect("a directory");
    let code = |name: &str, value: &str| {
        let start = Start::default().data(data.path()).env("CELLGATE_DOCKER_HOST", "unix:///nowhere/docker.sock");
        let command = start.env(name, value).command("doctor").output();
        command.expect("it starts").status.code()
    };
    assert_eq!(code("CELLGATE_PYTHON", "/nowhere/python"), Some(1));
    assert_eq!(code("CELLGATE_VARIANT", "docker"), Some(1));
    assert_eq!(code("CELLGATE_VARIANT", "nonsense"), Some(2));
    // What Kubernetes says of a Service named cellgate is no setting.
    assert_eq!(code("CELLGATE_SERVICE_HOST", "10.0.0.1"), Some(0));
}

#[tokio::test]
async fn a_log_at_debug_holds_no_code() {
    let gateway = Start::default().env("RUST_LOG", "debug").serve();
    let client = Client::connect(gateway.url()).await;
    client.call("execute_code", json!({"code": "'in-no-' + 'log' # secret-comment"})).await.ok();
    // Written after the answer.
    let limit = std::time::Duration::from_secs(10);
    eventually("the call is told of", limit, || gateway.log().contains("execute_code")).await;
    let log = gateway.log();
    assert!(!log.contains("secret-comment") && !log.contains("in-no-log"), "{log}");
}

#[test]
fn doctor_says_which_providers_can_run() {
    let data = tempfile::tempdir().expect("a directory");
    let output = Start::default().data(data.path()).command("doctor").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    for provider in ["process", "docker", "kubernetes"] {
        assert!(said.contains(provider), "{said}");
    }
}

#[tokio::test]
async fn a_machine_without_ca_certificates_will_do() {
    let start = Start::default().env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nowhere");
    let (_gateway, client) = launched(start).await;
    client.call("execute_code", json!({"code": "1"})).await.ok();
}
