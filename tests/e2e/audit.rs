//! The audit trail, and that no secret is anywhere: in it, the data directory, logs, command lines or answers.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::harness::{Client, Era, ForeignJupyter, Start, eventually, marked, mentioning, sandbox_token};

const LAUNCH: Duration = Duration::from_secs(900);

fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the audit trail is there");
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

/// Every file below the folder that holds these bytes.
fn holding(folder: &Path, secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(holding(&path, secret));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(secret.len()).any(|part| part == secret.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn each_event_is_told_once_and_no_secret_is_anywhere() {
    let folder = TempDir::new().expect("a directory");
    let (tokens, trail, data) =
        (folder.path().join("tokens"), folder.path().join("audit.jsonl"), TempDir::new().expect("a directory"));
    std::fs::write(&tokens, format!("acme alice {:x}\n", Sha256::digest("tok-of-the-caller"))).expect("written");
    let start = || {
        let start = Start::default().data(data.path()).argument("--tokens").argument(&tokens.to_string_lossy());
        let start = start.argument("--audit").argument(&trail.to_string_lossy()).env("RUST_LOG", "debug");
        start.argument("--attachable").argument("127.0.0.1")
    };
    let gateway = start().serve();
    let client = Client::connect_as(gateway.url(), Era::Modern, "auditor", Some("tok-of-the-caller")).await;
    let launch = json!({"sandbox_name": "box", "env": {"API_KEY": "key-of-the-caller"}});
    let launched = client.call_within(LAUNCH, "launch_sandbox", launch).await.ok();
    let id = launched.get("sandbox")["id"].clone();
    let token = sandbox_token(data.path(), id.as_str().expect("an id"));
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
    let code = "import os; print(os.environ['API_KEY'][:3]) # code-of-the-caller";
    client.call("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code})).await.ok();
    client.call("execute_code", json!({"code": "1 / 0"})).await.ok();
    client.call("use_sandbox", json!({"sandbox_name": "nothing"})).await.refused(&["sandbox.not_found"]);
    let foreign = ForeignJupyter::start(data.path()).await;
    let attach = json!({"jupyter_url": foreign.url(), "jupyter_token": foreign.token()});
    client.call("connect_to_jupyter", attach).await.ok();
    client.call("execute_code", json!({"code": "print('attached')"})).await.ok();
    let mut answers = String::new();
    for tool in ["list_sandboxes", "list_files", "list_kernels", "list_notebooks"] {
        answers += &client.call(tool, json!({})).await.ok().result().to_string();
    }
    let printed =
        client.call("execute_code", json!({"code": format!("print('{token}')"), "sandbox_name": "box"})).await.ok();
    answers += &printed.result().to_string();
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    gateway.kill();
    let next = start().serve();
    let client = client.at(next.url());
    client.call("execute_code", json!({"code": "1"})).await.ok();
    for secret in ["tok-of-the-caller", foreign.token(), token.as_str(), "key-of-the-caller"] {
        assert_eq!(holding(data.path(), secret), Vec::<String>::new(), "{secret} is in the data directory");
        assert!(!next.log().contains(secret) && !gateway.log().contains(secret), "{secret} is in a log");
        assert!(!answers.contains(secret), "{secret} is in an answer");
        assert_eq!(holding(folder.path(), secret), Vec::<String>::new(), "{secret} is in the audit trail");
        let shown =
            mentioning(secret).into_iter().filter(|process| !process.command.contains("jupyter_server --allow"));
        assert_eq!(shown.count(), 0, "{secret} is on a command line");
    }
    assert_eq!(holding(folder.path(), "code-of-the-caller"), Vec::<String>::new());
    next.end_by("TERM").await;
    assert!(marked(data.path()).is_empty());

    let events = events(&trail);
    let told = |event: &str, outcome: &str| -> Vec<&Value> {
        events.iter().filter(|line| line["event"] == event && line["outcome"] == outcome).collect()
    };
    let launched = told("launch", "ok");
    assert_eq!(launched.len(), 1, "{events:#?}");
    assert_eq!(
        (&launched[0]["sandbox"], &launched[0]["name"], &launched[0]["tool"]),
        (&id, &json!("box"), &json!("launch_sandbox"))
    );
    for event in &events {
        assert_eq!((&event["tenant"], &event["principal"]), (&json!("acme"), &json!("alice")), "{event}");
        assert!(
            event["time"].as_str().is_some_and(|time| time.ends_with('Z')) && event["seconds"].is_number(),
            "{event}"
        );
        let is_call = event["event"] != "end";
        assert_eq!(is_call, event["workspace"] == "client:auditor", "{event}");
        assert!(!is_call || event["request"].is_string(), "{event}");
    }
    assert_eq!(told("attach", "ok").len(), 1);
    assert_eq!(told("use", "ok").len(), 1);
    assert_eq!(told("use", "sandbox.not_found").len(), 1);
    assert_eq!(told("execute", "ok").len(), 4);
    assert_eq!(told("execute", "error").len(), 1);
    let ended = told("end", "terminated");
    assert_eq!(ended.len(), 1, "{events:#?}");
    assert_eq!((&ended[0]["cause"], &ended[0]["sandbox"]), (&json!("owner"), &id));
    assert!(ended[0]["request"].is_string());
}

#[tokio::test]
async fn a_sandbox_that_is_lost_expires_or_is_idle_says_so_in_the_trail_as_well() {
    let folder = TempDir::new().expect("a directory");
    let trail = folder.path().join("audit.jsonl");
    let gateway = Start::default().argument("--audit").argument(&trail.to_string_lossy()).serve();
    let client = Client::connect(gateway.url()).await;
    let launch = async |name: &str, lifetime: Value| {
        let mut arguments = lifetime;
        arguments["sandbox_name"] = json!(name);
        client.call_within(LAUNCH, "launch_sandbox", arguments).await.ok();
    };
    launch("idle", json!({"idle_timeout_seconds": 2})).await;
    launch("expired", json!({"ttl_seconds": 3})).await;
    launch("lost", json!({})).await;
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let records = listed.get("result").as_array().expect("a list");
    let lost = records.iter().find(|record| record["name"] == "lost").expect("it is listed");
    let jupyter = format!("{}/start_jupyter.py", lost["id"].as_str().expect("an id"));
    let mut processes = marked(gateway.data()).into_iter();
    processes.find(|process| process.command.contains(&jupyter)).expect("it runs").kill();
    eventually("all have ended", Duration::from_secs(30), || marked(gateway.data()).is_empty()).await;
    let ends = || events(&trail).into_iter().filter(|event| event["event"] == "end").collect::<Vec<_>>();
    eventually("all ends are told", Duration::from_secs(10), || ends().len() == 3).await;
    for (name, cause, words) in [
        ("idle", "idle", "not used for 2 s"),
        ("expired", "expired", "it expired at"),
        ("lost", "lost", "killed (signal 9)"),
    ] {
        assert!(ends().iter().any(|event| event["name"] == name && event["cause"] == cause), "{name}: {:?}", ends());
        let gone = client.call("execute_code", json!({"code": "1", "sandbox_name": name})).await;
        let gone = gone.refused(&["sandbox.gone"]);
        assert!(gone.text().contains(words), "{name}: {}", gone.text());
    }
}
