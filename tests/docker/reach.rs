//! What a sandbox reaches, and who reaches it.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::dock::{Dock, ENGINE, docker};
use crate::harness::{SOON, Start};
use crate::images::built;

/// Held by the one doctor at a time whose containers are counted.
static DOCTOR: Mutex<()> = Mutex::const_new(());
const METADATA: &str = "169.254.169.254";

/// An address on this machine's loopback, for as long as this value lives.
struct Address(&'static str);

impl Address {
    fn put(address: &'static str) -> Self {
        let put = Command::new("ip").args(["address", "replace", &format!("{address}/32"), "dev", "lo"]).status();
        assert!(put.expect("ip is installed (tests/setup)").success(), "{address} is put on the loopback");
        Self(address)
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["address", "del", &format!("{}/32", self.0), "dev", "lo"]).status();
    }
}

/// What becomes of a connection from a sandbox.
async fn tried(dock: &Dock, name: &str, address: &str) -> String {
    let code = format!(
        "import socket\nhost, port = '{address}'.rsplit(':', 1)\n\
        try:\n  socket.create_connection((host, int(port)), timeout=5).close(); print('it answers')\n\
        except OSError as error: print('no:', error)"
    );
    dock.run(name, &code).await
}

/// An address of this machine that is neither its loopback's nor a bridge's.
fn own_address() -> String {
    let ran = Command::new("ip").args(["-4", "-brief", "address", "show", "scope", "global"]).output();
    let shown = String::from_utf8_lossy(&ran.expect("ip is installed (tests/setup)").stdout).into_owned();
    let is_own = |line: &&str| !["br-", "docker", "cg", "veth"].iter().any(|name| line.starts_with(name));
    let line = shown.lines().find(is_own).expect("an address").to_owned();
    line.split_whitespace().nth(2).and_then(|address| address.split('/').next()).expect("an address").to_owned()
}

/// The containers of doctors.
fn probes() -> String {
    docker(&["ps", "--all", "--quiet", "--filter", "label=io.cellgate.role=probe"])
}

fn bridge() -> String {
    docker(&["network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", "cellgate"])
}

#[tokio::test]
async fn doctor_proves_what_a_sandbox_does_not_reach_where_it_answered_before() {
    let (_engine, _alone) = (ENGINE.read().await, DOCTOR.lock().await);
    let before = probes();
    let _address = Address::put(METADATA);
    let _metadata = TcpListener::bind((METADATA, 80)).expect("port 80 is free there");
    let data = TempDir::new().expect("a directory");
    let start = Start::default().data(data.path()).argument("--variant").argument("docker");
    let ran = tokio::task::spawn_blocking(move || start.command("doctor").output().expect("it runs")).await;
    let ran = ran.expect("it ends");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    for what in ["another sandbox's Jupyter", "what listens where the gateway runs", "the cloud's metadata"] {
        let line = said.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {said}"));
        assert!(line.contains("refused; it answered without the rules"), "{line}");
    }
    for what in ["the gateway's loopback alone", "the engine's socket"] {
        assert!(said.lines().any(|line| line.contains(what) && line.contains("doesn't reach")), "{said}");
    }
    assert_eq!(probes(), before, "nothing of it is left");
}

#[tokio::test]
async fn doctor_fails_where_the_operator_opened_everything() {
    let (_engine, _alone) = (ENGINE.read().await, DOCTOR.lock().await);
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("cellgate.toml");
    std::fs::write(&file, "[environments.default]\negress = \"open\"\n").expect("it is written");
    let start = Start::default().data(folder.path()).argument("--variant").argument("docker");
    let start = start.argument("--config").argument(&file.to_string_lossy());
    let ran = tokio::task::spawn_blocking(move || start.command("doctor").output().expect("it runs")).await;
    let ran = ran.expect("it ends");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(!ran.status.success() && said.contains("a sandbox reaches what listens where the gateway runs"), "{said}");
    // Its neighbour's own rules hold all the same.
    assert!(
        said.contains("a sandbox reaches another sandbox's Jupyter"),
        "the doctor's neighbour has no rules: {said}"
    );
}

#[tokio::test]
async fn neighbours_do_not_reach_each_other_whatever_they_may_reach_otherwise() {
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("cellgate.toml");
    std::fs::write(&file, "[environments.open]\negress = \"open\"\n").expect("it is written");
    let dock = Dock::with(&["--config", &file.to_string_lossy()]).await;
    dock.launch_with(json!({"sandbox_name": "one", "environment": "open"})).await.ok();
    dock.launch_with(json!({"sandbox_name": "other", "environment": "open"})).await.ok();
    let other = dock.container("other").await;
    let address = docker(&["inspect", "--format", "{{.NetworkSettings.Networks.cellgate.IPAddress}}", &other]);
    assert!(tried(&dock, "one", &format!("{address}:8888")).await.contains("no:"));
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let here = format!("{}:{}", bridge(), listener.local_addr().expect("an address").port());
    assert!(tried(&dock, "one", &here).await.contains("it answers"), "open means open");
}

#[tokio::test]
async fn by_default_a_sandbox_reaches_the_internet_and_no_private_network() {
    let dock = Dock::with_box().await;
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let gateway = dock.gateway().origin().trim_start_matches("http://").rsplit_once(':').expect("a port").1.to_owned();
    for address in [
        format!("{}:{port}", bridge()),
        format!("{}:{gateway}", bridge()),
        format!("172.17.0.1:{port}"),
        format!("{METADATA}:80"),
        "192.168.0.1:80".to_owned(),
        "100.64.0.1:80".to_owned(),
        "168.63.129.16:80".to_owned(),
        format!("{}:{port}", own_address()),
    ] {
        let became = tried(&dock, "box", &address).await;
        assert!(became.contains("refused"), "{address}: {became}");
    }
    assert!(tried(&dock, "box", "deb.debian.org:80").await.contains("it answers"));
}

#[tokio::test]
async fn what_an_image_began_before_its_rules_were_set_is_judged_by_them() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let here = format!("{}:{}", bridge(), listener.local_addr().expect("an address").port());
    let dock = Dock::with(&["--images", "cellgate-test/*"]).await;
    let launched = dock.launch("first").await;
    let from = launched.get("sandbox")["image"].as_str().expect("an image").to_owned();
    dock.terminate("first").await;
    let (host, port) = here.rsplit_once(':').expect("a port");
    let start = format!(
        "exec 7<>/dev/tcp/{host}/{port}; while :; do echo out >&7; sleep 0.1; done 2>/dev/null & exec /opt/cellgate/start"
    );
    let dockerfile = format!("FROM {from}\nENTRYPOINT [\"tini\", \"-g\", \"--\", \"bash\", \"-c\", \"{start}\"]\n");
    let image = built("early", &dockerfile);
    dock.launch_with(json!({"sandbox_name": "box", "image": image})).await.ok();
    // It got out before there were rules, and what it sends now doesn't come.
    let (mut stream, _) = listener.accept().expect("it connected");
    let quiet = std::time::Duration::from_secs(2);
    stream.set_read_timeout(Some(quiet)).expect("a limit");
    let (mut buffer, begun) = ([0; 4096], std::time::Instant::now());
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
        assert!(begun.elapsed() < SOON, "it goes on sending");
    }
}

#[tokio::test]
async fn a_sealed_sandbox_reaches_nothing_not_even_a_name_server() {
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("cellgate.toml");
    std::fs::write(&file, "[environments.default]\negress = \"none\"\n").expect("it is written");
    let dock = Dock::with(&["--config", &file.to_string_lossy()]).await;
    dock.launch("box").await;
    for address in ["deb.debian.org:80", "151.101.2.132:80", "127.0.0.11:53"] {
        let became = tried(&dock, "box", address).await;
        assert!(became.contains("no:"), "{address}: {became}");
    }
    let code = "import socket\ntry: print(socket.gethostbyname('deb.debian.org'))\nexcept OSError as error: print('no:', error)";
    assert!(dock.run("box", code).await.contains("no:"));
    assert!(dock.run("box", "print(6 * 7)").await.contains("42"), "and can be used");
}
