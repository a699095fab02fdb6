//! Launching, choosing, listing and ending sandboxes.

use serde_json::{Value, json};

use crate::harness::{Client, Gateway, Start, marked};

async fn gateway() -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    (gateway, client)
}

async fn launch(client: &Client, name: &str) -> Value {
    let limit = std::time::Duration::from_secs(900);
    client.call_within(limit, "launch_sandbox", json!({"sandbox_name": name})).await.ok().get("sandbox").clone()
}

async fn records(client: &Client) -> Vec<Value> {
    client.call("list_sandboxes", json!({})).await.ok().get("result").as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_launch_answers_a_whole_record_and_the_first_one_is_active() {
    let (_gateway, client) = gateway().await;
    let first = launch(&client, "one").await;
    assert_eq!(first["name"], "one");
    assert_eq!(first["status"], "running");
    assert_eq!(first["variant"], "process");
    assert_eq!(first["active"], true);
    assert_eq!(first["id"], first["sandbox_id"]);
    assert!(first["id"].as_str().is_some_and(|id| id.starts_with("s-") && id.len() < 16), "{first}");
    assert!(
        first["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:") && !url.contains("token")),
        "{first}"
    );
    for key in ["status_reason", "image", "environment", "gpu", "expires_at"] {
        assert!(first.get(key).is_some(), "no {key} in {first}");
    }
    for key in ["created_at", "last_activity_at"] {
        assert!(first[key].as_str().is_some_and(|time| time.ends_with('Z') && time.contains('T')), "{key} in {first}");
    }
    assert_eq!(first["attached_notebooks"], json!([]));
    assert_eq!(launch(&client, "two").await["active"], false);
    assert_eq!(records(&client).await.len(), 2);
}

#[tokio::test]
async fn a_listing_of_no_sandboxes_is_an_empty_list_and_a_sentence() {
    let (_gateway, client) = gateway().await;
    let reply = client.call("list_sandboxes", json!({})).await.ok();
    assert_eq!(reply.get("result"), &json!([]));
    assert!(reply.text().contains("launch_sandbox"), "{}", reply.text());
}

#[tokio::test]
async fn the_same_launch_again_answers_the_running_sandbox_and_another_one_is_refused() {
    let (gateway, client) = gateway().await;
    let first = launch(&client, "same").await;
    let before = marked(gateway.data()).len();
    assert_eq!(launch(&client, "same").await["id"], first["id"]);
    assert_eq!(marked(gateway.data()).len(), before);
    let other = json!({"sandbox_name": "same", "env": {"A": "1"}});
    client.call("launch_sandbox", other).await.refused(&["sandbox.name_taken"]).says("same");
}

#[tokio::test]
async fn two_launches_of_one_name_at_once_make_one_sandbox() {
    let (gateway, client) = gateway().await;
    let other = Client::connect(gateway.url()).await;
    let (first, second) = tokio::join!(launch(&client, "race"), launch(&other, "race"));
    assert_eq!(first["id"], second["id"]);
    let servers = marked(gateway.data()).into_iter().filter(|process| process.command.contains("jupyter")).count();
    assert_eq!(servers, 1);
}

#[tokio::test]
async fn files_outlive_the_sandbox_and_the_answer_says_so() {
    let (gateway, client) = gateway().await;
    let first = launch(&client, "keeps").await;
    client.call("execute_code", json!({"code": "open('left.txt', 'w').write('here')"})).await.ok();
    assert!(gateway.files("keeps").join("left.txt").exists());
    let ended = client.call("terminate_sandbox", json!({"sandbox_name": "keeps"})).await.ok();
    assert!(ended.text().contains("kept"), "{}", ended.text());
    assert!(marked(gateway.data()).is_empty(), "{:?}", marked(gateway.data()));
    client.call("terminate_sandbox", json!({"sandbox_name": "keeps"})).await.ok();
    let second = launch(&client, "keeps").await;
    assert_ne!(first["id"], second["id"]);
    let read = client.call("execute_code", json!({"code": "print(open('left.txt').read())"})).await.ok();
    assert_eq!(read.outputs().trim(), "here");
}

#[tokio::test]
async fn after_the_active_one_was_terminated_the_next_call_asks_for_another() {
    let (_gateway, client) = gateway().await;
    launch(&client, "gone").await;
    launch(&client, "other").await;
    client.call("terminate_sandbox", json!({"sandbox_name": "gone"})).await.ok();
    for (tool, arguments) in
        [("list_files", json!({})), ("execute_code", json!({"code": "1"})), ("list_kernels", json!({}))]
    {
        let refused = client.call(tool, arguments).await.refused(&["sandbox.none"]);
        assert!(refused.text().contains("other"), "{}", refused.text());
    }
    client.call("use_sandbox", json!({"sandbox_name": "other"})).await.ok();
    client.call("execute_code", json!({"code": "1"})).await.ok();
}

#[tokio::test]
async fn null_or_an_empty_name_clears_the_active_sandbox() {
    let (_gateway, client) = gateway().await;
    launch(&client, "a").await;
    launch(&client, "b").await;
    for nothing in [json!({"sandbox_name": null}), json!({"sandbox_name": ""}), json!({})] {
        client.call("use_sandbox", json!({"sandbox_name": "a"})).await.ok();
        client.call("use_sandbox", nothing).await.ok();
        assert!(records(&client).await.iter().all(|record| record["active"] == false));
        client.call("execute_code", json!({"code": "1"})).await.refused(&["sandbox.none"]);
    }
}

#[tokio::test]
async fn the_only_sandbox_becomes_active_by_itself_and_the_answer_says_so() {
    let (gateway, client) = gateway().await;
    launch(&client, "only").await;
    let newcomer = Client::connect(gateway.url()).await;
    let reply = newcomer.call("execute_code", json!({"code": "1 + 1"})).await.ok();
    assert_eq!(reply.outputs(), "2");
    assert!(reply.text().contains("only"), "{}", reply.text());
}

#[tokio::test]
async fn who_has_none_gets_the_default_sandbox_on_their_own_machine() {
    let (_gateway, client) = gateway().await;
    let limit = std::time::Duration::from_secs(900);
    let reply = client.call_within(limit, "execute_code", json!({"code": "1 + 1"})).await.ok();
    assert_eq!(reply.outputs(), "2");
    assert_eq!(records(&client).await[0]["name"], "default");
}

#[tokio::test]
async fn a_wish_that_the_provider_cannot_keep_is_refused_by_name() {
    let (gateway, client) = gateway().await;
    for (wish, value) in
        [("gpu", json!("1")), ("image", json!("python:3")), ("cpu", json!(0.5)), ("memory", json!("512Mi"))]
    {
        let mut arguments = json!({"sandbox_name": "wish"});
        arguments[wish] = value;
        client.call("launch_sandbox", arguments).await.refused(&["provider.unsupported"]).says(wish);
    }
    let refused = client.call("launch_sandbox", json!({"sandbox_name": "wish", "variant": "eval"})).await;
    refused.refused(&["provider.unsupported", "provider.unavailable", "arguments.invalid"]).says("process");
    for key in ["kernel_id", "proxy_token", "channels_url", "python_version", "snapshot_name"] {
        let mut arguments = json!({"sandbox_name": "wish"});
        arguments[key] = json!("x");
        client
            .call("launch_sandbox", arguments)
            .await
            .refused(&["arguments.invalid", "provider.unsupported"])
            .says(key);
    }
    assert!(marked(gateway.data()).is_empty());
    let mut nulls = json!({"sandbox_name": "wish"});
    for key in [
        "kernel_id",
        "proxy_token",
        "channels_url",
        "python_version",
        "snapshot_name",
        "gpu",
        "variant",
        "env",
        "ttl_seconds",
    ] {
        nulls[key] = Value::Null;
    }
    client.call_within(std::time::Duration::from_secs(900), "launch_sandbox", nulls).await.ok();
}

#[tokio::test]
async fn a_sandbox_that_never_was_is_not_found() {
    let (_gateway, client) = gateway().await;
    client.call("use_sandbox", json!({"sandbox_name": "nope"})).await.refused(&["sandbox.not_found"]).says("nope");
    client
        .call("terminate_sandbox", json!({"sandbox_name": "nope"}))
        .await
        .refused(&["sandbox.not_found"])
        .says("nope");
    client.call("list_files", json!({"sandbox_name": "nope"})).await.refused(&["sandbox.not_found"]).says("nope");
}

#[tokio::test]
async fn a_kernel_sees_its_own_variables_and_no_secret_of_the_gateway() {
    let gateway = Start::default()
        .env("CELLGATE_TOKEN", "gateway-secret-42")
        .env("AWS_SECRET_ACCESS_KEY", "cloud-secret-43")
        .serve();
    let client = Client::connect_as(gateway.url(), crate::harness::Era::Legacy, "t", Some("gateway-secret-42")).await;
    let limit = std::time::Duration::from_secs(900);
    let arguments = json!({"sandbox_name": "env", "env": {"GREETING": "hello there"}});
    client.call_within(limit, "launch_sandbox", arguments).await.ok();
    let code = "import os, json; print(json.dumps(dict(os.environ)))";
    let seen = client.call("execute_code", json!({"code": code})).await.ok().outputs();
    assert!(seen.contains("hello there"), "{seen}");
    for secret in ["gateway-secret-42", "cloud-secret-43", "JUPYTER_TOKEN"] {
        assert!(!seen.contains(secret), "{seen}");
    }
    let commands: Vec<String> = marked(gateway.data()).into_iter().map(|process| process.command).collect();
    assert!(commands.iter().all(|command| !command.to_lowercase().contains("token")), "{commands:?}");
}

#[tokio::test]
async fn what_a_sandbox_installs_stays_in_it() {
    let (gateway, client) = gateway().await;
    launch(&client, "installs").await;
    let code = "import sysconfig, pathlib\nd = pathlib.Path(sysconfig.get_paths()['purelib'])\nd.mkdir(parents=True, exist_ok=True)\n(d / 'cellgate_probe.py').write_text('x = 1')\nprint(d)";
    let place = client.call("execute_code", json!({"code": code})).await.ok().outputs();
    assert!(place.contains(&*gateway.data().to_string_lossy()), "packages go to {place}, not into the sandbox");
    launch(&client, "clean").await;
    let code = "import importlib.util; print(importlib.util.find_spec('cellgate_probe'))";
    let seen = client.call("execute_code", json!({"code": code, "sandbox_name": "clean"})).await.ok();
    assert_eq!(seen.outputs().trim(), "None");
    let pip = client.call("execute_code", json!({"code": "%pip --version"})).await.ok();
    assert!(pip.outputs().contains("pip "), "{}", pip.outputs());
}
