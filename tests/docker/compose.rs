//! The gateway in a container beside the engine, as the compose files have it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;
use tokio::sync::RwLockReadGuard;

use crate::dock::{ENGINE, docker, tried};
use crate::harness::{Client, Era, LAUNCH, SOON, http, not_run};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A project of `docker-compose`.
struct Project {
    files: Vec<String>,
    name: String,
    port: u16,
    image: String,
    _engine: RwLockReadGuard<'static, ()>,
}

impl Project {
    /// Up and answering; none where the gateway's image was not built.
    async fn up(files: &[&str]) -> Option<Self> {
        let image = std::env::var("CELLGATE_TEST_GATEWAY_IMAGE").ok()?;
        let engine = ENGINE.read().await;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway");
        let files = files.iter().map(|file| root.join(file).to_string_lossy().into_owned()).collect();
        let project = Self { files, name: format!("cellgate-test-{port}"), port, image, _engine: engine };
        project.ran(&["up", "--detach"]);
        project.answers().await;
        Some(project)
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("docker-compose");
        for file in &self.files {
            command.args(["--file", file]);
        }
        command.args(["--project-name", &self.name]).args(arguments);
        command.env("CELLGATE_TOKEN", TOKEN).env("CELLGATE_PORT", self.port.to_string());
        command.env("CELLGATE_IMAGE", &self.image).output().expect("docker-compose is installed (tests/setup)")
    }

    fn ran(&self, arguments: &[&str]) -> String {
        let ran = self.command(arguments);
        let said = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(ran.status.success(), "{arguments:?}: {said}");
        said
    }

    async fn answers(&self) {
        let (live, until) = (format!("http://127.0.0.1:{}/livez", self.port), tokio::time::Instant::now() + SOON);
        while !http().get(&live).send().await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(tokio::time::Instant::now() < until, "it answers: {}", self.ran(&["logs"]));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn client(&self) -> Client {
        let url = format!("http://127.0.0.1:{}/mcp?workspace=compose", self.port);
        Client::connect_as(&url, Era::Legacy, "compose", Some(TOKEN)).await
    }

    fn gateway(&self) -> String {
        self.ran(&["ps", "--quiet", "gateway"]).trim().to_owned()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.command(&["logs"]);
            eprintln!("{}", String::from_utf8_lossy(&said.stdout));
        }
        self.command(&["down", "--volumes"]);
    }
}

async fn run(client: &Client, code: &str) -> String {
    client.call("execute_code", json!({"sandbox_name": "box", "code": code})).await.ok().outputs()
}

const ADDRESS: &str = "{{.NetworkSettings.Networks.cellgate.IPAddress}}";

/// Takes an address on the sandboxes' network, by as many containers as that takes.
fn taken(wanted: &str) -> Vec<String> {
    let mut blockers = Vec::new();
    for _ in 0..10 {
        let command = ["run", "--detach", "--network", "cellgate", "debian:13.8-slim", "sleep", "60"];
        let blocker = docker(&command);
        let is_wanted = docker(&["inspect", "--format", ADDRESS, &blocker]) == wanted;
        blockers.push(blocker);
        if is_wanted {
            break;
        }
    }
    blockers
}

/// Puts another container in the gateway's place, with another address since somebody else has the old one.
fn moved(project: &Project) {
    let before = docker(&["inspect", "--format", ADDRESS, &project.gateway()]);
    let mut blockers = Vec::new();
    // Other tests' containers take and free addresses at the same time.
    let has_moved = (0..5).any(|_| {
        project.ran(&["rm", "--stop", "--force", "gateway"]);
        blockers.extend(taken(&before));
        project.ran(&["up", "--detach", "gateway"]);
        docker(&["inspect", "--format", ADDRESS, &project.gateway()]) != before
    });
    for blocker in blockers {
        docker(&["rm", "--force", &blocker]);
    }
    assert!(has_moved, "the gateway is at {before} again");
}

async fn serves_from_a_container(files: &[&str]) {
    let Some(project) = Project::up(files).await else {
        return not_run("compose", "the gateway's image was not built (tests/run docker does it)");
    };
    let client = project.client().await;
    let launch = json!({"sandbox_name": "box"});
    let launched = client.call_within(LAUNCH, "launch_sandbox", launch).await.ok();
    // At its own address: nothing of it is published.
    let record = launched.get("sandbox").clone();
    let container = format!("cellgate-{}", record["id"].as_str().expect("an id"));
    assert!(record["url"].as_str().expect("a URL").contains(":8888/"), "{record}");
    assert_eq!(docker(&["port", &container]), "");
    assert!(run(&client, "x = 41\nprint(x)").await.contains("41"));
    let gateway = docker(&["inspect", "--format", ADDRESS, &project.gateway()]);
    let code = format!(
        "import socket\ntry: socket.create_connection(('{gateway}', 8717), timeout=5); print('it answers')\n\
        except OSError as error: print('no:', error)"
    );
    assert!(run(&client, &code).await.contains("refused"), "a sandbox doesn't reach its gateway");
    moved(&project);
    project.answers().await;
    let client = project.client().await;
    assert!(run(&client, "print(x + 1)").await.contains("42"), "it goes on with it");
    let said = project.ran(&["exec", "-T", "gateway", "/cellgate", "doctor"]);
    assert!(
        said.contains("runs in a container of it") && said.contains("refused; it answered without the rules"),
        "{said}"
    );
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    let pruned = project.ran(&["exec", "-T", "gateway", "/cellgate", "prune", "--yes"]);
    assert!(pruned.contains("1 deleted"), "{pruned}");
    assert!(!tried(&["inspect", &container]).1);
}

#[tokio::test]
async fn a_gateway_in_a_container_beside_the_engine_works() {
    serves_from_a_container(&["compose.yaml"]).await;
}

#[tokio::test]
async fn behind_a_filter_in_front_of_the_socket_too() {
    serves_from_a_container(&["compose.yaml", "compose.proxy.yaml"]).await;
}
