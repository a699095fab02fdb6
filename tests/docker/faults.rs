//! What goes wrong around a sandbox, and what callers are told.

use std::time::Duration;

use serde_json::json;

use crate::dock::{Dock, ENGINE, docker};
use crate::harness::{Client, LAUNCH, SOON, Start, eventually};

#[tokio::test]
async fn a_gateway_that_was_killed_or_stopped_is_followed_by_one_that_goes_on_with_its_containers() {
    let mut dock = Dock::with_box().await;
    dock.run("box", "x = 41").await;
    let container = dock.container("box").await;
    dock.kill_and_restart().await;
    assert!(dock.run("box", "print(x + 1)").await.contains("42"));
    dock.stop_and_restart().await;
    assert!(dock.run("box", "print(x + 2)").await.contains("43"));
    assert_eq!(dock.containers(), [container]);
    dock.terminate("box").await;
    assert!(dock.containers().is_empty());
}

#[tokio::test]
async fn a_container_that_somebody_killed_is_told_of_and_cleared_away() {
    let dock = Dock::with_box().await;
    docker(&["kill", &dock.container("box").await]);
    let record = dock.becomes("box", "lost").await;
    assert!(record["status_reason"].to_string().contains("killed (exit code 137)"), "{record}");
    let refused = dock.client.call("execute_code", json!({"sandbox_name": "box", "code": "1"})).await;
    refused.refused(&["sandbox.gone"]);
    assert_eq!(dock.truth("killed").await, "lost");
    dock.launch("box").await;
}

#[tokio::test]
async fn a_container_that_somebody_removed_is_gone_with_its_home() {
    let dock = Dock::with_box().await;
    docker(&["rm", "--force", &dock.container("box").await]);
    let record = dock.becomes("box", "lost").await;
    // It is killed first, which may be seen.
    let reason = record["status_reason"].to_string();
    assert!(reason.contains("removed") || reason.contains("killed"), "{record}");
    assert_eq!(dock.truth("removed").await, "lost");
}

#[tokio::test]
async fn a_container_that_somebody_restarted_has_no_rules_any_more_and_is_not_used() {
    let dock = Dock::with_box().await;
    docker(&["restart", "--time", "0", &dock.container("box").await]);
    let record = dock.becomes("box", "lost").await;
    let reason = record["status_reason"].to_string();
    assert!(reason.contains("restarted") || reason.contains("killed"), "{record}");
    assert_eq!(dock.truth("restarted").await, "lost");
}

#[tokio::test]
async fn a_kernel_that_takes_too_much_memory_is_said_to_have_run_out_of_it() {
    let dock = Dock::start().await;
    dock.launch_with(json!({"sandbox_name": "box", "memory": "256Mi"})).await.ok();
    let code = "x = bytearray(600 << 20)\nfor at in range(0, len(x), 4096): x[at] = 1";
    let ran = dock.client.call("execute_code", json!({"sandbox_name": "box", "code": code})).await;
    let ran = ran.refused(&["kernel.died"]);
    assert!(ran.structured().to_string().contains("ran out of memory"), "{}", ran.structured());
    assert!(dock.run("box", "print(6 * 7)").await.contains("42"), "it can be used again");
}

#[tokio::test]
async fn a_sandbox_ends_when_nobody_uses_it_and_says_so() {
    let dock = Dock::start().await;
    dock.launch_with(json!({"sandbox_name": "box", "idle_timeout_seconds": 2})).await.ok();
    let record = dock.becomes("box", "terminated").await;
    assert!(record["status_reason"].to_string().contains("not used for 2 s"), "{record}");
    assert_eq!(dock.truth("idle").await, "terminated");
}

#[tokio::test]
async fn a_container_ends_itself_when_its_gateway_never_comes_back() {
    let mut dock = Dock::start().await;
    dock.launch_with(json!({"sandbox_name": "box", "ttl_seconds": 3})).await.ok();
    let container = dock.container("box").await;
    dock.gateway().kill();
    let running = || docker(&["inspect", "--format", "{{.State.Running}}", &container]) == "true";
    eventually("it ends itself", Duration::from_secs(60), || !running()).await;
    dock.kill_and_restart().await;
    assert_eq!(dock.truth("expired").await, "lost");
    let record = dock.record("box").await;
    assert!(record["status_reason"].to_string().contains("expired (ttl_seconds)"), "{record}");
}

#[tokio::test]
async fn two_callers_with_the_same_name_get_the_same_sandbox() {
    let dock = Dock::start().await;
    let (one, other) = tokio::join!(dock.launch("box"), dock.launch("box"));
    assert_eq!(one.get("sandbox")["id"], other.get("sandbox")["id"]);
    assert_eq!(dock.containers().len(), 1);
    let differs = dock.launch_with(json!({"sandbox_name": "box", "memory": "512Mi"})).await;
    differs.refused(&["sandbox.name_taken"]);
}

#[tokio::test]
async fn files_outlive_their_sandbox_and_are_pruned_on_request() {
    let dock = Dock::with_box().await;
    dock.run("box", "open('data.csv', 'w').write('a,b')").await;
    let ended = dock.terminate("box").await;
    let volume = dock.volumes().pop().expect("the volume stays");
    assert!(ended.structured().to_string().contains(&volume), "{}", ended.structured());
    let gone = dock.client.call("execute_code", json!({"sandbox_name": "box", "code": "1"})).await;
    gone.refused(&["sandbox.gone"]).says("Its files are kept");
    let again = dock.launch("box").await;
    assert!(again.structured().to_string().contains("there again"), "{}", again.structured());
    assert!(dock.run("box", "print(open('data.csv').read())").await.contains("a,b"));
    let prune = || {
        let start = crate::harness::Start::default().data(dock.data()).argument("--variant").argument("docker");
        let ran = start.command("prune").args(["--yes", "--json"]).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    assert_eq!(prune().trim(), "[]", "what a sandbox uses is left alone");
    dock.terminate("box").await;
    assert!(prune().contains(&volume));
    assert!(dock.volumes().is_empty(), "{:?}", dock.volumes());
    let new = dock.launch("box").await;
    assert!(!new.structured().to_string().contains("there again"));
}

#[tokio::test]
async fn a_process_that_an_earlier_gateway_left_is_looked_after_and_no_other_is_launched() {
    let _engine = ENGINE.read().await;
    let data = tempfile::TempDir::new().expect("a directory");
    let start = || Start::default().data(data.path());
    let before = start().serve();
    let client = Client::connect(&format!("{}?workspace=w", before.url())).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "old"})).await.ok();
    before.kill();
    let now = start().argument("--variant").argument("docker").serve();
    let client = Client::connect(&format!("{}?workspace=w", now.url())).await;
    let run = json!({"sandbox_name": "old", "code": "print(6 * 7)"});
    assert!(client.call("execute_code", run).await.ok().outputs().contains("42"));
    let new = client.call("launch_sandbox", json!({"sandbox_name": "new", "variant": "process"})).await;
    new.refused(&["provider.unsupported"]).says("there are docker, jupyter-server");
    client.call("terminate_sandbox", json!({"sandbox_name": "old"})).await.ok();
}

#[tokio::test]
async fn another_data_directorys_containers_are_left_alone() {
    let (one, mut other) = (Dock::with_box().await, Dock::with_box().await);
    other.kill_and_restart().await;
    other.terminate("box").await;
    assert_eq!(one.containers().len(), 1);
    assert!(one.run("box", "print(6 * 7)").await.contains("42"));
    tokio::time::timeout(SOON, one.terminate("box")).await.expect("it ends");
}
