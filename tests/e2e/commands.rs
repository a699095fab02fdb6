//! `cellgate check`, `list`, `terminate` and `prune`, for people and scripts.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
async fn a_check_tries_a_gateway_from_handshake_to_clean_up() {
    let gateway = Start::default().env("CELLGATE_TOKEN", "tok-check").serve();
    let with = |token: &str| Start::default().env("CELLGATE_TOKEN", token);
    let output = run(with("tok-check"), "check", &[gateway.url()]).await;
    assert!(output.status.success(), "{}", said(&output));
    for step in ["✓ handshake", "✓ launch", "✓ run", "✓ clean up"] {
        assert!(said(&output).contains(step), "{step}: {}", said(&output));
    }
    assert!(marked(gateway.data()).is_empty(), "{:?}", marked(gateway.data()));
    let report = json_of(&run(with("tok-check"), "check", &[gateway.origin(), "--json"]).await);
    assert_eq!((&report["ok"], report["steps"].as_array().map(Vec::len)), (&json!(true), Some(4)), "{report}");

    let output = run(with("wrong"), "check", &[gateway.url()]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("refused the token") && !said(&output).contains("wrong"), "{}", said(&output));
}

#[tokio::test]
async fn a_check_says_what_is_wrong_and_fails() {
    let check = async |url: &str| run(Start::default(), "check", &[url, "--timeout", "20"]).await;
    for (url, code, words) in
        [("http://127.0.0.1:1", 1, "reached"), ("nonsense", 2, "no URL"), ("ftp://h/", 2, "http://")]
    {
        let output = check(url).await;
        assert_eq!(output.status.code(), Some(code), "{url}: {}", said(&output));
        assert!(said(&output).contains(words), "{url}: {}", said(&output));
    }
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", other.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = other.accept().await {
            // A client that is answered before it asked takes that for a broken connection.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno").await;
        }
    });
    let output = check(&url).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("not an MCP server"), "{}", said(&output));

    let gateway = Start::default().env("CELLGATE_PYTHON", "/nowhere/python").serve();
    let output = check(gateway.url()).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("✗ launch") && said(&output).contains("/nowhere/python"), "{}", said(&output));
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
