//! Many sandboxes in one cluster. Their pods are run by nobody: what they are like is written by hand.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::Berth;
use crate::yard::{API, Namespace, own_arguments};

const SANDBOXES: usize = 500;
const AT_ONCE: usize = 25;

fn labels(id: &str, role: &str) -> Value {
    json!({
        "app.kubernetes.io/managed-by": "cellgate", "cellgate.io/gateway": "scale",
        "cellgate.io/role": role, "cellgate.io/sandbox": id,
    })
}

fn record(number: usize, id: &str) -> ConfigMap {
    let record = json!({
        "id": id, "owner": {"tenant": "local", "principal": "local"}, "name": format!("box-{number}"),
        "variant": "kubernetes", "generation": 1, "instance": "before", "status": "starting", "status_reason": null,
        "url": null, "image": "cellgate/python:1", "environment": null, "gpu": null,
        "created_at": jiff::Timestamp::now().to_string(), "last_activity_at": jiff::Timestamp::now().to_string(),
        "expires_at": null, "digest": "d", "files": null, "ephemeral": true, "backend": null, "idle_seconds": 3600,
        "key_id": "", "wish": "running", "wish_reason": null,
    });
    let metadata = json!({"name": format!("cellgate-{id}"), "labels": labels(id, "record")});
    serde_json::from_value(json!({"metadata": metadata, "data": {"record.json": record.to_string()}})).expect("one")
}

fn pod(id: &str) -> Pod {
    let security = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    });
    let container = json!({"name": "jupyter", "image": "cellgate/python:1", "securityContext": security});
    serde_json::from_value(json!({
        "metadata": {"name": format!("cellgate-{id}"), "labels": labels(id, "sandbox")},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }))
    .expect("one")
}

#[tokio::test]
async fn five_hundred_sandboxes_are_found_again_and_listed_quickly() {
    let _api = API.read().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let namespace = Namespace::new();
    let client = kube::Client::try_default().await.expect("a client");
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace.name);
    let pods: Api<Pod> = Api::namespaced(client, &namespace.name);
    let ready = json!({"status": {
        "phase": "Running", "podIP": "10.97.255.254", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let made = stream::iter(0..SANDBOXES).map(|number| {
        let (records, pods, ready) = (records.clone(), pods.clone(), ready.clone());
        async move {
            let id = format!("s-{number:08}");
            records.create(&PostParams::default(), &record(number, &id)).await.expect("a record");
            pods.create(&PostParams::default(), &pod(&id)).await.expect("a pod");
            let name = format!("cellgate-{id}");
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await.expect("a status");
        }
    });
    made.buffer_unordered(AT_ONCE).collect::<()>().await;
    let begun = Instant::now();
    let arguments = [&own_arguments(&namespace.name)[..], &["--kubernetes-gateway", "scale"]].concat();
    let berth = Berth::start(&arguments).await;
    let started = begun.elapsed();
    let mut took = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        let listed = berth.client.call("list_sandboxes", json!({})).await.ok();
        took.push(begun.elapsed());
        assert!(listed.structured().to_string().contains("\"status\":\"running\""));
    }
    took.sort();
    let memory = berth.gateway().memory();
    println!("{SANDBOXES} sandboxes: start {started:?}, list p50 {:?}, gateway {memory} MB", took[25]);
    // A debug build, whose answers the harness checks as well: a release build has to take 50 ms at most, a tenth of this.
    assert!(took[25] <= Duration::from_millis(500), "{:?}", took[25]);
}
