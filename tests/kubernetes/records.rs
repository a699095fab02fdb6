//! What the cluster has of a sandbox: a record object that owns the rest, and finds a gateway that lost its own.

use serde_json::{Value, json};

use crate::harness::{Berth, SOON, Start, eventually, not_run};
use crate::yard::{API, Namespace, Yard, apply, own_arguments, tried};

#[tokio::test]
async fn deleting_the_record_removes_all_but_the_files() {
    let yard = Yard::with_box().await;
    let name = yard.pod("box").await;
    let objects: Value =
        serde_json::from_str(&yard.kubectl(&["get", "pod,secret", &name, "-o", "json"])).expect("JSON");
    let record = yard.kubectl(&["get", "configmap", &name, "-o", "jsonpath={.metadata.uid}"]);
    for object in objects["items"].as_array().expect("a list") {
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("ConfigMap"), &json!(record)), "{object}");
        assert!(object["metadata"]["finalizers"].is_null(), "{object}");
    }
    yard.kubectl(&["delete", "configmap", &name, "--wait=false"]);
    yard.becomes("box", "lost").await;
    assert_eq!(yard.truth("record deleted").await, "lost");
    assert_eq!(yard.namespace.objects("persistentvolumeclaims").len(), 1);
}

#[tokio::test]
async fn a_gateway_that_lost_its_data_directory_finds_its_sandboxes_again() {
    let _api = API.read().await;
    let namespace = Namespace::new();
    // The key that tokens are derived from stays, as a Secret of the chart does.
    let keys = tempfile::TempDir::new().expect("a directory");
    let file = keys.path().join("keys");
    std::fs::write(&file, "07".repeat(32)).expect("it is written");
    let named = ["--kubernetes-gateway", "release", "--master-key-file", file.to_str().expect("text")];
    let arguments = [&own_arguments(&namespace.name)[..], &named].concat();
    let mut first = Berth::start(&arguments).await;
    let launched = first.launch("box").await;
    first.launch("gone").await;
    first.run("box", "x = 41").await;
    first.gateway().kill();
    first.end();
    let gone = tried(&["-n", &namespace.name, "get", "pods", "-o", "name"]).0;
    assert_eq!(gone.lines().count(), 2, "{gone}");
    let second = Berth::start(&arguments).await;
    assert_eq!(second.record("box").await["id"], launched.get("sandbox")["id"]);
    assert!(second.run("box", "print(6 * 7)").await.contains("42"));
    second.terminate("gone").await;
    second.terminate("box").await;
    assert!(namespace.left().is_empty(), "{:?}", namespace.left());
}

#[tokio::test]
async fn a_life_costs_five_writes() {
    let Ok(audit) = std::env::var("CELLGATE_TEST_AUDIT") else {
        return not_run("counting writes", "the cluster's audit trail is not this suite's");
    };
    let yard = Yard::with_box().await;
    yard.run("box", "print(6 * 7)").await;
    yard.terminate("box").await;
    let namespace = yard.namespace.name.clone();
    let written = || {
        let trail = std::fs::read_to_string(&audit).expect("the trail is there");
        let events = trail.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = events.filter(|event| {
            let by_kubectl = event["userAgent"].as_str().is_some_and(|agent| agent.contains("kubectl"));
            event["objectRef"]["namespace"] == json!(namespace) && !by_kubectl
        });
        own.map(|event| format!("{} {}", event["verb"], event["objectRef"]["resource"])).collect::<Vec<_>>()
    };
    eventually("the end is in the trail", SOON, || written().iter().any(|write| write.contains("delete"))).await;
    // The way to the pod is a connection that is created; nothing is stored for it.
    let writes: Vec<String> = written().into_iter().filter(|write| !write.contains("portforward")).collect();
    let pods = writes
        .iter()
        .filter(|write| write.contains("create \"pods\"") || write.contains("\"create\" \"pods\""))
        .count();
    assert!(writes.len() <= 5 + pods.saturating_sub(1), "{writes:?}");
}

#[tokio::test]
async fn a_sweep_removes_what_is_over_and_leaves_what_lives() {
    let _api = API.read().await;
    let namespace = Namespace::new();
    let arguments = [&own_arguments(&namespace.name)[..], &["--kubernetes-gateway", "swept"]].concat();
    let berth = Berth::start(&arguments).await;
    let record = berth.launch("box").await.get("sandbox").clone();
    let own = format!("cellgate-{}", record["id"].as_str().expect("an id"));
    let labels = |sandbox: &str| {
        json!({
            "app.kubernetes.io/managed-by": "cellgate", "cellgate.io/gateway": "swept",
            "cellgate.io/role": "record", "cellgate.io/sandbox": sandbox,
        })
    };
    // The record of one whose time was over an hour ago, and whose gateway never came back.
    let text = tried(&["-n", &namespace.name, "get", "configmap", &own, "-o", "jsonpath={.data.record\\.json}"]).0;
    let mut left: Value = serde_json::from_str(&text).expect("JSON");
    left["id"] = json!("s-leftover");
    left["expires_at"] = json!("2020-01-01T00:00:00Z");
    apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cellgate-s-leftover", "namespace": namespace.name, "labels": labels("s-leftover")},
        "data": {"record.json": left.to_string()},
    }));
    let sweep =
        arguments.iter().fold(Start::default(), |start, argument| start.argument(argument)).command("sweep").output();
    let said = String::from_utf8_lossy(&sweep.expect("it runs").stdout).into_owned();
    assert!(said.contains("cellgate-s-leftover was left") && said.contains("1 removed"), "{said}");
    assert!(berth.run("box", "print(6 * 7)").await.contains("42"));
    berth.terminate("box").await;
}

#[tokio::test]
async fn two_gateways_in_one_namespace_leave_each_others_alone() {
    let _api = API.read().await;
    let namespace = Namespace::new();
    let own = own_arguments(&namespace.name);
    let start = |name: &'static str| {
        let arguments = [&own[..], &["--kubernetes-gateway", name]].concat();
        async move { Berth::start(&arguments).await }
    };
    let (one, mut other) = (start("one").await, start("other").await);
    one.launch("box").await;
    other.launch("box").await;
    other.kill_and_restart().await;
    other.terminate("box").await;
    assert!(one.run("box", "print(6 * 7)").await.contains("42"));
    one.terminate("box").await;
}
