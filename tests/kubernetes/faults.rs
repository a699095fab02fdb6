//! What goes wrong in a cluster, and what callers are told.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{SOON, eventually, not_run, signal};
use crate::yard::{API, Yard, apply, kubectl, tried};

/// How long the API server is away.
const OUTAGE: Duration = Duration::from_secs(30);

const CONFIGURATION: &str = r#"
[environments.huge]
memory = "4000Gi"

[environments.elsewhere.pod]
node_selector = { disk = "fast" }
labels = { team = "data" }

[environments.sealed]
egress = "none"

[environments.absent]
image = "127.0.0.1:1/none:1"
"#;

#[tokio::test]
async fn a_gateway_that_was_killed_or_stopped_is_followed_by_one_that_goes_on() {
    let mut yard = Yard::with_box().await;
    yard.run("box", "x = 41").await;
    yard.kill_and_restart().await;
    assert!(yard.run("box", "print(x + 1)").await.contains("42"));
    yard.stop_and_restart().await;
    assert!(yard.run("box", "print(x + 2)").await.contains("43"));
}

#[tokio::test]
async fn a_pod_that_somebody_deleted_is_told_of_and_its_files_are_there() {
    let yard = Yard::with_box().await;
    yard.run("box", "open('kept.txt', 'w').write('kept')").await;
    yard.kubectl(&["delete", "pod", &yard.pod("box").await]);
    let record = yard.becomes("box", "lost").await;
    assert!(record["status_reason"].to_string().contains("deleted"), "{record}");
    let gone = yard.client.call("execute_code", json!({"sandbox_name": "box", "code": "1"})).await;
    gone.refused(&["sandbox.gone"]).says("Its files are kept");
    assert_eq!(yard.truth("deleted").await, "lost");
    yard.launch("box").await;
    assert!(yard.run("box", "print(open('kept.txt').read())").await.contains("kept"));
}

#[tokio::test]
async fn a_pod_that_is_not_ready_for_a_while_is_gone_on_with_by_the_next_gateway() {
    let mut yard = Yard::with_box().await;
    yard.run("box", "x = 41").await;
    // As when the node is out of reach; the kubelet says otherwise in a moment, so it is said again and again.
    let pod = yard.pod("box").await;
    let namespace = yard.namespace.name.clone();
    let unready = r#"{"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let patching = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(50)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tried(&["-n", &namespace, "patch", "pod", &pod, "--subresource=status", "--type=strategic", "-p", unready]);
        }
    });
    yard.kill_and_restart().await;
    assert!(yard.run("box", "print(x + 1)").await.contains("42"));
    drop(stop);
    patching.join().expect("it ends");
    assert_eq!(yard.truth("unready").await, "running");
}

#[tokio::test]
async fn a_node_that_is_drained_takes_its_pods_along_and_no_files() {
    // Nothing is scheduled meanwhile, so nobody else is at work.
    let _alone = API.write().await;
    let yard = Yard::unguarded(&[]).await;
    yard.launch("box").await;
    yard.run("box", "open('kept.txt', 'w').write('kept')").await;
    let own = format!("cellgate.io/sandbox={}", yard.record("box").await["id"].as_str().expect("an id"));
    kubectl(&["drain", "node", "--force", "--delete-emptydir-data", "--pod-selector", &own]);
    let record = yard.becomes("box", "lost").await;
    kubectl(&["uncordon", "node"]);
    assert!(record["status_reason"].to_string().contains("deleted"), "{record}");
    yard.launch("box").await;
    assert!(yard.run("box", "print(open('kept.txt').read())").await.contains("kept"));
}

#[tokio::test]
async fn why_a_pod_does_not_start_is_said_in_words_and_in_time() {
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("cellgate.toml");
    std::fs::write(&file, CONFIGURATION).expect("it is written");
    let yard = Yard::with(&["--config", &file.to_string_lossy()]).await;
    for (environment, words) in
        [("huge", "Insufficient memory"), ("absent", "image can't be had"), ("elsewhere", "affinity/selector")]
    {
        let begun = Instant::now();
        let failed = yard.launch_with(json!({"sandbox_name": "box", "environment": environment})).await;
        let failed = failed.refused(&["sandbox.launch_failed"]);
        assert!(failed.structured().to_string().contains(words), "{}", failed.structured());
        assert!(begun.elapsed() < Duration::from_secs(30), "{environment}: {:?}", begun.elapsed());
        assert_eq!(yard.truth(environment).await, "failed");
    }
    let sealed = yard.launch_with(json!({"sandbox_name": "box", "environment": "sealed"})).await;
    sealed.refused(&["provider.unsupported"]).says("network policy");
    let namespace = &yard.namespace.name;
    apply(&json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"pods": "0"}},
    }));
    let failed = yard.launch_with(json!({"sandbox_name": "box"})).await.refused(&["sandbox.launch_failed"]);
    assert!(failed.structured().to_string().contains("exceeded quota"), "{}", failed.structured());
    assert_eq!(yard.truth("quota").await, "failed");
}

#[tokio::test]
async fn what_happens_to_be_called_like_a_sandbox_s_pod_is_left_as_it_is() {
    let yard = Yard::start().await;
    let call = yard.held("kubernetes.recorded", "launch_sandbox", json!({"sandbox_name": "box"})).await;
    let name = yard.namespace.objects("configmaps")[0].split_once('/').expect("a kind").1.to_owned();
    let security = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    });
    let container = json!({"name": "other", "image": "other:1", "securityContext": security});
    apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": yard.namespace.name},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }));
    yard.go_on("kubernetes.recorded");
    let refused = call.wait().await.refused(&["sandbox.launch_failed"]);
    assert!(refused.text().contains("left as it is"), "{}", refused.text());
    assert!(yard.namespace.left().is_empty(), "{:?}", yard.namespace.left());
    yard.kubectl(&["get", "pod", &name]);
    yard.launch("box").await;
}

#[tokio::test]
async fn a_pod_ends_by_itself_when_its_gateway_never_comes_back() {
    let mut yard = Yard::start().await;
    yard.launch_with(json!({"sandbox_name": "box", "ttl_seconds": 3})).await.ok();
    let pod = yard.pod("box").await;
    let deadline = yard.kubectl(&["get", "pod", &pod, "-o", "jsonpath={.spec.activeDeadlineSeconds}"]);
    assert!(deadline.parse::<u64>().is_ok_and(|seconds| seconds < 70), "{deadline}");
    yard.gateway().kill();
    let phase = || yard.kubectl(&["get", "pod", &pod, "-o", "jsonpath={.status.phase}"]);
    eventually("it ends", Duration::from_secs(90), || matches!(phase().as_str(), "Succeeded" | "Failed")).await;
    yard.kill_and_restart().await;
    assert_eq!(yard.truth("expired").await, "lost");
}

#[tokio::test]
async fn an_api_server_that_goes_away_and_comes_back_costs_no_sandbox() {
    let (Some(pid_file), Ok(command)) =
        (std::env::var_os("CELLGATE_TEST_API_PID_FILE").map(PathBuf::from), std::env::var("CELLGATE_TEST_API_COMMAND"))
    else {
        return not_run("API server restart", "the cluster is not this suite's own");
    };
    let _alone = API.write().await;
    let mut yard = Yard::unguarded(&[]).await;
    yard.launch("box").await;
    yard.run("box", "x = 41").await;
    let stopped = Instant::now();
    signal(std::fs::read_to_string(&pid_file).expect("its pid").trim().parse().expect("a number"), "TERM");
    eventually("it ends", SOON, || !tried(&["get", "--raw", "/readyz"]).1).await;
    yard.client.call("list_sandboxes", json!({})).await.ok();
    let refused = yard.client.call("launch_sandbox", json!({"sandbox_name": "other"})).await;
    refused.refused(&["provider.unavailable", "sandbox.launch_failed"]);
    // Another gateway starts meanwhile: it can't tell what became of the sandbox, and forgets nothing.
    yard.kill_and_restart().await;
    tokio::time::sleep(OUTAGE.saturating_sub(stopped.elapsed())).await;
    let words: Vec<&str> = command.split(' ').collect();
    let mut api = Command::new(words[0]);
    api.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut api = api.spawn().expect("it starts");
    std::fs::write(&pid_file, api.id().to_string()).expect("its pid is written");
    std::thread::spawn(move || api.wait());
    eventually("it answers", Duration::from_secs(60), || tried(&["get", "--raw", "/readyz"]).1).await;
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    let again = json!({"sandbox_name": "box", "code": "print(x + 1)"});
    while !yard.client.call("execute_code", again.clone()).await.outputs().contains("42") {
        assert!(tokio::time::Instant::now() < until, "it goes on with the sandbox");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    yard.launch("other").await;
}
