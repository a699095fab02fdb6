//! The chart installed by Helm, with the gateway's real image, on a real cluster that enforces network policies.

use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::harness::{Client, Era, LAUNCH, SOON, http};
use crate::helm::{chart, helm_ok, kubectl, kubectl_command};

const RELEASE: &str = "gate";
/// Another than the image's own.
const PORT: u16 = 8720;

/// A release in a namespace of its own.
struct Release {
    namespace: String,
    sandboxes: String,
}

impl Release {
    fn install() -> Self {
        let namespace = format!("cellgate-chart-{}", std::process::id());
        let release = Self { sandboxes: format!("{namespace}-sandboxes"), namespace };
        release.helm("install", &["--create-namespace"]);
        release
    }

    /// Installs or upgrades, and waits until it is ready.
    fn helm(&self, verb: &str, more: &[&str]) {
        let image = std::env::var("CELLGATE_TEST_GATEWAY_IMAGE").expect("tests/run chart builds the gateway's image");
        let (repository, tag) = image.rsplit_once(':').expect("a tag");
        let sandbox = std::env::var("CELLGATE_TEST_SANDBOX_IMAGE").expect("tests/run chart builds the sandbox image");
        let chart = chart();
        let values = [
            format!("image.repository={repository},image.tag={tag},sandboxes.image={sandbox}"),
            format!("sandboxes.namespace={},sandboxes.memory=1Gi,service.port={PORT}", self.sandboxes),
        ];
        let own = [verb, RELEASE, chart.to_str().expect("text"), "--namespace", &self.namespace];
        let pod = r#"sandboxes.pod={"labels":{"team":"data"}}"#;
        let set = ["--set", &values[0], "--set", &values[1], "--set-json", pod, "--wait", "--timeout", "120s"];
        helm_ok(&[&own[..], &set, more].concat());
    }

    fn token(&self) -> String {
        let secret = ["get", "secret", "gate-cellgate-auth", "-o", "jsonpath={.data.token}"];
        let encoded = kubectl(&[&["-n", &self.namespace], &secret[..]].concat());
        String::from_utf8(base64::Engine::decode(&base64::prelude::BASE64_STANDARD, encoded).expect("base64"))
            .expect("text")
    }

    /// A client from outside, through the Service.
    async fn client(&self) -> (Client, Forward) {
        self.client_as(&self.token()).await
    }

    async fn client_as(&self, token: &str) -> (Client, Forward) {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let ports = format!("{port}:{PORT}");
        let mut command = kubectl_command();
        command.args(["-n", &self.namespace, "port-forward", "service/gate-cellgate", &ports]);
        let forward = Forward(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("kubectl runs"));
        let (live, until) = (format!("http://127.0.0.1:{port}/livez"), tokio::time::Instant::now() + SOON);
        while !http().get(&live).send().await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(tokio::time::Instant::now() < until, "it answers through the Service");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let url = format!("http://127.0.0.1:{port}/mcp?workspace=chart");
        (Client::connect_as(&url, Era::Legacy, "chart", Some(token)).await, forward)
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = ["-n", &self.namespace, "logs", "deployment/gate-cellgate", "--tail=40"];
            let _ = kubectl_command().args(logs).status();
            let _ = kubectl_command().args(["-n", &self.namespace, "get", "pods", "-o", "wide"]).status();
        }
        for namespace in [&self.namespace, &self.sandboxes] {
            let _ = kubectl_command().args(["delete", "namespace", namespace, "--wait=false"]).output();
        }
    }
}

/// kubectl's port-forward, for as long as this value lives.
struct Forward(Child);

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn run(client: &Client, code: &str) -> String {
    client.call("execute_code", json!({"sandbox_name": "box", "code": code})).await.ok().outputs()
}

#[tokio::test]
async fn it_is_installed_tested_used_upgraded_and_removed() {
    let release = Release::install();
    let tested = helm_ok(&["test", RELEASE, "--namespace", &release.namespace, "--logs", "--timeout", "180s"]);
    assert!(tested.contains("Succeeded"), "{tested}");
    assert!(tested.contains("no way to 10.96.0.1:443 (it answers here)"), "{tested}");
    assert!(tested.contains("no way to 169.254.169.254:80"), "{tested}");
    let (client, forward) = release.client().await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(run(&client, "x = 41\nprint(x)").await.contains("41"));
    // A sandbox reaches the internet, and neither its gateway nor the node.
    let service =
        kubectl(&["-n", &release.namespace, "get", "service", "gate-cellgate", "-o", "jsonpath={.spec.clusterIP}"]);
    for (address, reached) in [(format!("{service}:{PORT}"), false), ("10.98.0.1:6443".to_owned(), false)] {
        let code = format!(
            "import socket\nhost, port = '{address}'.split(':')\n\
            try: socket.create_connection((host, int(port)), timeout=4); print('it answers')\n\
            except OSError as error: print('no:', error)"
        );
        assert_eq!(run(&client, &code).await.contains("it answers"), reached, "{address}");
    }
    drop((client, forward));
    // The next gateway has an empty data directory: the cluster tells it what there is.
    release.helm("upgrade", &["--set", "logFormat=text,sandboxes.maxInAll=50"]);
    let (client, forward) = release.client().await;
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    assert!(listed.structured().to_string().contains("\"status\":\"running\""), "{}", listed.structured());
    assert!(run(&client, "print(6 * 7)").await.contains("42"));
    drop((client, forward));
    // Everyone with a token of their own, and the test with one more; the one that was everyone's is no longer valid.
    let earlier = release.token();
    release.helm("upgrade", &["--set", &format!("auth.tokens=acme ann {:x}", Sha256::digest("token-of-ann"))]);
    let tested = helm_ok(&["test", RELEASE, "--namespace", &release.namespace, "--logs", "--timeout", "180s"]);
    assert!(tested.contains("Succeeded"), "{tested}");
    assert_ne!(release.token(), earlier);
    let (client, forward) = release.client_as("token-of-ann").await;
    client.call("execute_code", json!({"sandbox_name": "box", "code": "1"})).await.refused(&["sandbox.not_found"]);
    drop((client, forward));
    helm_ok(&["uninstall", RELEASE, "--namespace", &release.namespace, "--wait"]);
    // Nobody's work goes with the gateway.
    let pods = kubectl(&["-n", &release.sandboxes, "get", "pods", "-l", "team=data", "-o", "name"]);
    assert_eq!(pods.lines().count(), 1, "{pods}");
}
