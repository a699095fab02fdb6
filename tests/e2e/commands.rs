//! `cellgate list`, `terminate` and `prune`, for people and scripts.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Gateway, Start, marked};

const LAUNCH: Duration = Duration::from_secs(900);

async fn run(start: Start, command: &str, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::from(start.command(command));
    command.args(arguments).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await;
    output.expect("it ends in time").expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("JSON, and nothing else")
}

async fn launched(data: &Path, name: &str) -> (Gateway, Client) {
    let gateway = Start::default().data(data).serve();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": name})).await.ok();
    (gateway, client)
}

#[tokio::test]
async fn an_operator_lists_ends_and_prunes_while_a_gateway_runs() {
    let data = TempDir::new().expect("a directory");
    let (gateway, client) = launched(data.path(), "box").await;
    let here = || Start::default().data(data.path());
    client.call("execute_code", json!({"code": "open('f', 'w').write('x' * 5000)"})).await.ok();
    let listed = json_of(&run(here(), "list", &["--json"]).await);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["status"], &listed[0]["principal"]),
        (&json!("box"), &json!("running"), &json!("local"))
    );
    let output = run(here(), "list", &[]).await;
    assert!(said(&output).contains("PRINCIPAL") && said(&output).contains("local/local"), "{}", said(&output));
    // What runs is not pruned.
    assert_eq!(json_of(&run(here(), "prune", &["--yes", "--json"]).await), json!([]));

    let output = run(here(), "terminate", &["box"]).await;
    assert!(output.status.success() && said(&output).contains("terminated"), "{}", said(&output));
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    let gone = client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.gone"]);
    assert!(
        gone.text().contains("terminated by the operator") && gone.text().contains("files are kept"),
        "{}",
        gone.text()
    );
    let output = run(here(), "terminate", &["nothing"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cellgate list"), "{}", said(&output));

    let file = gateway.files("box").join("f");
    let output = run(here(), "prune", &[]).await;
    assert!(said(&output).contains("Nothing was deleted") && said(&output).contains("box"), "{}", said(&output));
    assert!(file.exists());
    assert_eq!(json_of(&run(here(), "prune", &["--older-than", "1", "--yes", "--json"]).await), json!([]));
    let pruned = json_of(&run(here(), "prune", &["--yes", "--json"]).await);
    assert_eq!((&pruned[0]["deleted"], pruned[0]["bytes"].as_u64()), (&json!(true), Some(5000)), "{pruned}");
    assert!(!file.exists());
    let gone = client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.gone"]);
    assert!(gone.text().contains("files were deleted"), "{}", gone.text());
}

#[tokio::test]
async fn an_operator_ends_what_a_killed_gateway_left() {
    let data = TempDir::new().expect("a directory");
    let (gateway, _) = launched(data.path(), "left").await;
    gateway.kill();
    let here = || Start::default().data(data.path());
    let listed = json_of(&run(here(), "list", &["--json"]).await);
    assert!(listed[0]["status_reason"].as_str().is_some_and(|reason| reason.contains("no gateway")), "{listed}");
    let ended = json_of(&run(here(), "terminate", &["left", "--json"]).await);
    assert_eq!(ended[0]["status"], "terminated", "{ended}");
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    let nowhere = run(Start::default().data(&data.path().join("nowhere")), "list", &[]).await;
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(said(&nowhere).contains("no data directory"), "{}", said(&nowhere));
}
