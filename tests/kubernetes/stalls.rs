//! An API server that says nothing any more, though nobody is told that it went away.

use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Client, LAUNCH, SOON, Start, Wire, http};
use crate::yard::{API, Namespace, kubectl, own_arguments};

/// How long an answer may take of which the API server is asked in vain.
const ANSWER: Duration = Duration::from_secs(45);

/// A kubeconfig by which the API server is reached through a network of the test's.
async fn behind_a_wire(folder: &TempDir) -> (Wire, String) {
    let file = std::env::var("KUBECONFIG").expect("tests/run kubernetes sets it");
    let text = std::fs::read_to_string(file).expect("a kubeconfig");
    let server = kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let host = server.strip_prefix("https://").expect("https");
    let wire = Wire::to(tokio::net::lookup_host(host).await.expect("its address").next().expect("an address")).await;
    let own = folder.path().join("kubeconfig");
    std::fs::write(&own, text.replace(&server, &format!("https://{}", wire.address()))).expect("it is written");
    (wire, own.to_string_lossy().into_owned())
}

#[tokio::test]
async fn a_watch_that_stalled_is_noticed_and_a_silent_api_server_keeps_nobody_waiting() {
    let _api = API.read().await;
    let (folder, data, namespace) =
        (TempDir::new().expect("a directory"), TempDir::new().expect("one"), Namespace::new());
    let (wire, kubeconfig) = behind_a_wire(&folder).await;
    let start = Start::default().data(data.path()).env("KUBECONFIG", &kubeconfig);
    let gateway = own_arguments(&namespace.name).iter().fold(start, |start, argument| start.argument(argument)).serve();
    let client = Client::connect(gateway.url()).await;
    let launched = client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    let pod = format!("cellgate-{}", launched.get("sandbox")["id"].as_str().expect("an id"));

    // The connections that there are die without a word; new ones work.
    wire.freeze();
    wire.mend();
    kubectl(&["-n", &namespace.name, "delete", "pod", &pod]);
    let is_lost = async || {
        let listed = client.call("list_sandboxes", json!({})).await.ok();
        listed.structured().to_string().contains("\"status\":\"lost\"")
    };
    let until = Instant::now() + SOON;
    while !is_lost().await {
        assert!(Instant::now() < until, "the watch has stalled, and nobody noticed");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    // Nothing passes at all.
    wire.freeze();
    let begun = Instant::now();
    let refused = client.call_within(2 * ANSWER, "launch_sandbox", json!({"sandbox_name": "other"})).await;
    refused.refused(&["provider.unavailable", "sandbox.launch_failed"]);
    assert!(begun.elapsed() < ANSWER, "{:?}", begun.elapsed());
    let ready = format!("{}/readyz", gateway.origin());
    becomes_ready(&ready, false).await;
    wire.mend();
    // Nothing happens in the cluster meanwhile that its watch could tell.
    becomes_ready(&ready, true).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "other"})).await.ok();
}

async fn becomes_ready(url: &str, wanted: bool) {
    let until = Instant::now() + 2 * ANSWER;
    while http().get(url).send().await.is_ok_and(|answer| answer.status().is_success()) != wanted {
        assert!(Instant::now() < until, "ready: {wanted}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
