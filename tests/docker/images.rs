//! Images: built when they are absent, refused when they break the contract, and told apart when they don't work.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::dock::{Dock, ENGINE, docker, tried};
use crate::harness::{LAUNCH, SOON, eventually, http, not_run};

/// The images of these tests.
const ALLOWED: [&str; 2] = ["--images", "cellgate-test/*"];

/// Builds an image from a Dockerfile without files.
pub(crate) fn built(name: &str, dockerfile: &str) -> String {
    let reference = format!("cellgate-test/{name}:1");
    let mut build = Command::new("docker")
        .args(["build", "--quiet", "--tag", &reference, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("docker is installed (tests/setup)");
    build.stdin.take().expect("piped").write_all(dockerfile.as_bytes()).expect("it reads");
    assert!(build.wait().expect("it ends").success(), "{reference} is built");
    reference
}

/// The image that sandboxes have by default.
async fn default_image(dock: &Dock) -> String {
    let launched = dock.launch("first").await;
    dock.terminate("first").await;
    launched.get("sandbox")["image"].as_str().expect("an image").to_owned()
}

#[tokio::test]
async fn an_image_that_exits_is_told_of_with_its_code_and_last_words() {
    let dock = Dock::with(&ALLOWED).await;
    let from = default_image(&dock).await;
    let image = built("exits", &format!("FROM {from}\nENTRYPOINT [\"sh\", \"-c\", \"echo no config; exit 3\"]\n"));
    let failed = dock.launch_with(json!({"sandbox_name": "box", "image": image})).await;
    let failed = failed.refused(&["sandbox.launch_failed"]);
    let said = failed.structured().to_string();
    assert!(said.contains("exit code 3") && said.contains("no config"), "{said}");
    assert!(dock.containers().is_empty());
    assert!(dock.volumes().iter().all(|volume| volume.contains("first")), "{:?}", dock.volumes());
}

#[tokio::test]
async fn an_image_that_never_listens_is_taken_down_when_its_time_is_over() {
    let dock = Dock::with(&ALLOWED).await;
    let from = default_image(&dock).await;
    let image =
        built("silent", &format!("FROM {from}\nENTRYPOINT [\"sh\", \"-c\", \"echo thinking; exec sleep 600\"]\n"));
    let failed = dock.launch_with(json!({"sandbox_name": "box", "image": image, "timeout": 3})).await;
    let said = failed.refused(&["sandbox.launch_failed"]).structured().to_string();
    assert!(said.contains("not ready after 3 s") && said.contains("thinking"), "{said}");
    assert!(dock.containers().is_empty());
}

#[tokio::test]
async fn an_image_that_breaks_the_contract_or_is_not_allowed_is_refused() {
    let dock = Dock::with(&ALLOWED).await;
    let from = default_image(&dock).await;
    let newer = built("newer", &format!("FROM {from}\nLABEL io.cellgate.contract=2.1\n"));
    let other = built("other", "FROM debian:13.8-slim\nCMD true\n");
    let ask = |image: String| dock.launch_with(json!({"sandbox_name": "box", "image": image}));
    ask(newer).await.refused(&["provider.unsupported"]).says("version 2.1 of the contract");
    ask(other).await.refused(&["provider.unsupported"]).says("no sandbox image");
    ask("debian:13.8-slim".to_owned()).await.refused(&["forbidden"]).says("cellgate-test/*");
    ask("cellgate-test/absent:1".to_owned()).await.refused(&["provider.unavailable"]).says("can't be pulled");
    ask("cellgate-test/..".to_owned()).await.refused(&["forbidden"]);
    let ready = http().get(format!("{}/readyz", dock.gateway().origin())).send().await.expect("it answers");
    assert!(ready.status().is_success(), "what one caller asked for makes nobody else's launches impossible");
    assert!(dock.containers().is_empty());
}

#[tokio::test]
async fn the_image_is_built_when_the_engine_lacks_it_and_the_time_limit_waits_for_that() {
    let base = "cellgate-test/base:1";
    {
        let _engine = ENGINE.read().await;
        docker(&["tag", "debian:13.8-slim", base]);
    }
    let dock = Dock::with(&["--base-image", base]).await;
    let launch = dock.client.start("launch_sandbox", json!({"sandbox_name": "box", "timeout": 20}));
    let (launched, news) = tokio::time::timeout(LAUNCH, launch.wait_with_progress()).await.expect("it answers");
    let launched = launched.ok();
    let image = launched.get("sandbox")["image"].as_str().expect("an image").to_owned();
    assert!(news.iter().any(|news| news.to_string().contains("image")), "{news:?}");
    dock.terminate("box").await;
    drop(dock);
    docker(&["image", "rm", &image, base]);
}

/// A registry on this machine's loopback, for as long as this value lives.
struct Registry {
    process: Child,
    address: String,
    _storage: TempDir,
}

impl Registry {
    async fn start(program: &str) -> Self {
        let storage = TempDir::new().expect("a directory");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let address = format!("127.0.0.1:{port}");
        let (root, configuration) = (storage.path().join("data"), storage.path().join("registry.yml"));
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            root.display()
        );
        std::fs::write(&configuration, text).expect("it is written");
        let mut command = Command::new(program);
        command.arg("serve").arg(&configuration).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the registry starts");
        eventually("the registry listens", SOON, || std::net::TcpStream::connect(&address).is_ok()).await;
        Self { process, address, _storage: storage }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn an_image_that_the_engine_lacks_is_pulled_with_progress() {
    let Ok(program) = std::env::var("CELLGATE_TEST_REGISTRY") else {
        return not_run("pulling an image", "there is no registry (tests/run docker builds one with Go)");
    };
    let registry = Registry::start(&program).await;
    let image = format!("{}/team/small:1", registry.address);
    let dock = Dock::with(&["--images", &format!("{}/team/*", registry.address)]).await;
    // It keeps the contract as far as its label goes, and ends at once: that it was run is seen by its last words.
    let small = "FROM debian:13.8-slim\nLABEL io.cellgate.contract=1\nRUN head -c 30000000 /dev/urandom > /random\n\
                 ENTRYPOINT [\"sh\", \"-c\", \"echo pulled and run; exit 7\"]\n";
    docker(&["tag", &built("small", small), &image]);
    docker(&["push", "--quiet", &image]);
    docker(&["image", "rm", "--force", &image, "cellgate-test/small:1"]);
    let launch = dock.client.start("launch_sandbox", json!({"sandbox_name": "box", "image": image, "timeout": 20}));
    let (failed, news) = tokio::time::timeout(LAUNCH, launch.wait_with_progress()).await.expect("it answers");
    failed.refused(&["sandbox.launch_failed"]).says("pulled and run");
    let news: Vec<String> = news.iter().map(ToString::to_string).collect();
    assert!(news.iter().any(|news| news.contains("pulling the image")), "{news:?}");
    tried(&["image", "rm", "--force", &image]);
}

#[tokio::test]
async fn the_image_works_for_any_user_of_group_0_and_on_both_kinds_of_addresses() {
    let dock = Dock::start().await;
    let image = default_image(&dock).await;
    let token = "JUPYTER_TOKEN=of-this-test";
    let run = [
        "run",
        "--detach",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/home/sandbox:mode=2775",
        "--volume",
        "/workspace",
        "--cap-drop",
        "ALL",
    ];
    let user = ["--user", "123456:0", "--sysctl", "net.ipv6.conf.lo.disable_ipv6=0", "--env", token, &image];
    let container = docker(&[&run[..], &user].concat());
    let healthy = || tried(&["exec", &container, "/opt/cellgate/health"]).1;
    eventually("its health check passes", SOON, healthy).await;
    let look = "import urllib.request as web\nfor host in ['127.0.0.1', '[::1]']:\n  \
                print(web.urlopen(f'http://{host}:8888/api/status?token=of-this-test').status)\n\
                open('/workspace/x', 'w').close(); open('/home/sandbox/x', 'w').close()";
    let printed = docker(&["exec", &container, "/home/sandbox/.venv/bin/python", "-c", look]);
    let refused = tried(&["run", "--rm", &image]);
    docker(&["rm", "--force", "--volumes", &container]);
    assert_eq!(printed, "200\n200");
    assert!(!refused.1 && refused.0.contains("No token"), "{refused:?}");
}

#[tokio::test]
async fn a_base_that_can_not_be_had_is_named() {
    let dock = Dock::with(&["--base-image", "127.0.0.1:1/none:1"]).await;
    let failed = dock.launch_with(json!({"sandbox_name": "box"})).await;
    let said = failed.refused(&["provider.unavailable"]).structured().to_string();
    assert!(said.contains("can't be built") && said.contains("127.0.0.1:1"), "{said}");
}
