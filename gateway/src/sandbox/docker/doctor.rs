//! What `cellgate doctor` finds out about the Docker provider: whether the engine answers, and what a sandbox really reaches.
//!
//! A refusal proves something only where the address answered before: so each is tried from a sandbox without its rules first,
//! then with them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, ListContainersOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions,
    StartContainerOptions,
};
use futures_util::TryStreamExt;
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::net::TcpListener;

use super::container::{self, Making, PORT};
use super::end::remove;
use super::engine::{self, Connected, Engine};
use super::image::Images;
use super::network::{self, Bridge};
use super::volumes::{Volumes, Wanted};
use super::{firewall, labels};
use crate::sandbox::profile::Resources;
use crate::sandbox::{Finding, FleetConfig, LaunchRequest, Owner, Plan, Progress, SandboxId};

const ROLE: &str = "probe";
const PROVIDER: &str = "docker";
/// Where clouds keep what their machines may know.
const METADATA: &str = "169.254.169.254";
/// Where engines that are open to a network listen.
const ENGINE_PORT: u16 = 2375;
const INTERPRETER: &str = "/opt/venv/bin/python";
const SOCKET: &str = "/var/run/docker.sock";
/// What the probe says of an address that can be connected to.
const ANSWERS: &str = "answers";
/// How long another sandbox may take until it listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a container of the doctor lives when nobody removes it, in seconds.
const LIFE: i64 = 600;
/// Begins the name that what the doctor makes has for a data directory's id.
const DIRECTORY: &str = "doctor-";
/// Tries addresses all at once and prints one word for each.
const PROBE: &str = r#"
import json, os, socket, sys
from concurrent.futures import ThreadPoolExecutor

def tried(target):
    host, port = target
    if not port:
        return "answers" if os.path.exists(host) else "absent"
    try:
        socket.create_connection((host, port), timeout=3).close()
        return "answers"
    except TimeoutError:
        return "silent"
    except OSError:
        return "refused"

targets = json.loads(sys.argv[1])
print(json.dumps(list(ThreadPoolExecutor(len(targets)).map(tried, targets))))
"#;

/// What a sandbox must not reach.
struct Target {
    what: String,
    address: String,
    /// 0 for a file.
    port: u16,
}

/// Whether this provider can run here. Where it is the one that launches, also what its sandboxes reach.
pub(in crate::sandbox) async fn doctor(config: &FleetConfig, news: &Progress) -> Vec<Finding> {
    let finding = |ok, detail: String| Finding { provider: PROVIDER, ok, detail };
    let engine = Arc::new(Engine::new(config.docker.host.clone()));
    let connected = match engine.connected().await {
        Ok(connected) => connected,
        Err(missing) => return vec![finding(false, missing.to_string())],
    };
    let place = if connected.own_container.is_some() { "the gateway runs in a container of it" } else { "it answers" };
    let mut findings = vec![finding(true, format!("Docker Engine {}: {place}", connected.version))];
    if config.variant == PROVIDER {
        let examined = examined(config, &engine, connected, news).await;
        findings.extend(
            examined.unwrap_or_else(|reason| vec![finding(false, format!("no sandbox can be tried: {reason}"))]),
        );
    }
    findings
}

async fn examined(
    config: &FleetConfig,
    engine: &Arc<Engine>,
    connected: &Connected,
    news: &Progress,
) -> Result<Vec<Finding>, String> {
    let request = LaunchRequest { name: "doctor".to_owned(), ..LaunchRequest::default() };
    let resources = config.profiles.resolve(&request).map_err(|error| error.to_string())?;
    let images = Images::new(config.docker.base_image.clone());
    let image = images.ready(&connected.docker, &images.with_nft(), news).await;
    let image = image.map_err(|error| error.to_string())?;
    let bridge = network::bridge(connected).await.map_err(|error| engine::said(&error))?;
    let directory = format!("{DIRECTORY}{}", uuid::Uuid::new_v4());
    let volumes = Volumes::new(Arc::clone(engine), &directory);
    let ward = Ward { connected, volumes, directory, request, resources, image, bridge };
    ward.remove_dead().await.map_err(|error| engine::said(&error))?;
    let (patient, neighbour) = (SandboxId::random(), SandboxId::random());
    let findings = ward.examine(&patient, &neighbour).await;
    for id in [&patient, &neighbour] {
        ward.remove(id).await.map_err(|error| format!("{id} can't be removed: {}", engine::said(&error)))?;
    }
    findings
}

/// Where containers are made only to be tried.
struct Ward<'a> {
    connected: &'a Connected,
    volumes: Volumes,
    directory: String,
    request: LaunchRequest,
    resources: Resources,
    image: String,
    bridge: Bridge,
}

impl Ward<'_> {
    async fn examine(&self, patient: &SandboxId, neighbour: &SandboxId) -> Result<Vec<Finding>, String> {
        let said = |error: Error| engine::said(&error);
        let on_all = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.map_err(|error| error.to_string())?;
        let on_loopback = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| error.to_string())?;
        let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port()).unwrap_or_default();
        let patient = self.start(patient, &["-c", &format!("import time; time.sleep({LIFE})")]).await?;
        let serve = format!(
            "import http.server as web, threading, time\n\
            server = web.HTTPServer(('', {PORT}), web.BaseHTTPRequestHandler)\n\
            threading.Thread(target=server.serve_forever, daemon=True).start()\n\
            time.sleep({LIFE})"
        );
        let other = self.start(neighbour, &["-c", &serve]).await?;
        let address = network::address(&self.connected.docker, &other, &self.bridge.id).await.map_err(said)?;
        let neighbour = address.ok_or("the engine gave a container no address")?.to_string();
        let here = self.bridge.gateway.to_string();
        let is_another = |address: &&IpAddr| address.is_ipv4() && **address != self.bridge.gateway;
        let own = firewall::machine().iter().find(is_another).map_or_else(|| here.clone(), ToString::to_string);
        let target =
            |what: &str, address: &str, port| Target { what: what.to_owned(), address: address.to_owned(), port };
        let targets = [
            target("another sandbox's Jupyter", &neighbour, PORT),
            target("what listens where the gateway runs", &here, port(&on_all)),
            target("the same at the machine's own address", &own, port(&on_all)),
            target("what listens on the gateway's loopback alone", &here, port(&on_loopback)),
            target("the cloud's metadata", METADATA, 80),
            target("an engine that is open to the network", &here, ENGINE_PORT),
            target("the engine's socket", SOCKET, 0),
        ];
        self.wait_for(&patient, &targets[0]).await?;
        let before = self.tried(&patient, &targets).await?;
        self.rule(&patient).await?;
        let after = self.tried(&patient, &targets).await?;
        Ok(targets.iter().zip(before.iter().zip(&after)).map(|(target, words)| target.finding(words)).collect())
    }

    async fn start(&self, id: &SandboxId, command: &[&str]) -> Result<String, String> {
        let docker = &self.connected.docker;
        let plan = Plan {
            id: id.clone(),
            instance: PROVIDER.to_owned(),
            generation: 1,
            record: String::new(),
            base_url: "/".to_owned(),
            token: SecretString::default(),
            owner: Owner::local(),
            request: LaunchRequest { name: id.to_string(), ..self.request.clone() },
            idle: None,
            expires_at: None,
        };
        let wanted = Wanted::of(&plan, self.resources.disk);
        self.volumes.make(docker, &wanted).await.map_err(|error| error.to_string())?;
        let mut body = container::body(&Making {
            plan: &plan,
            resources: &self.resources,
            image: &self.image,
            directory: &self.directory,
            network: &self.bridge.id,
            volumes: &self.volumes.names(&wanted),
            published: false,
            cpus: self.connected.cpus,
        });
        body.entrypoint = Some(vec![INTERPRETER.to_owned()]);
        body.cmd = Some(command.iter().map(|&word| word.to_owned()).collect());
        body.labels.get_or_insert_default().insert(labels::ROLE.to_owned(), ROLE.to_owned());
        let started = async {
            let options = CreateContainerOptionsBuilder::default().name(&container::name(id.as_str())).build();
            let created = docker.create_container(Some(options), body).await?;
            docker.start_container(&created.id, None::<StartContainerOptions>).await?;
            Ok(created.id)
        };
        started.await.map_err(|error: Error| engine::said(&error))
    }

    /// Until it listens, a refusal would prove nothing.
    async fn wait_for(&self, patient: &str, target: &Target) -> Result<(), String> {
        let answered = async {
            while self.tried(patient, std::slice::from_ref(target)).await? != [ANSWERS] {}
            Ok(())
        };
        tokio::time::timeout(PATIENCE, answered)
            .await
            .unwrap_or_else(|_| Err(format!("{} doesn't answer", target.what)))
    }

    async fn rule(&self, container: &str) -> Result<(), String> {
        let target = firewall::Target { container, image: &self.image, labels: self.marks() };
        let rules =
            firewall::rules(self.bridge.gateway, self.resources.egress.unwrap_or_default(), &firewall::machine());
        firewall::apply(&self.connected.docker, &target, &rules).await.map_err(|error| error.to_string())
    }

    /// What becomes of each target, tried from inside a container.
    async fn tried(&self, container: &str, targets: &[Target]) -> Result<Vec<String>, String> {
        let asked: Vec<(&str, u16)> = targets.iter().map(|target| (target.address.as_str(), target.port)).collect();
        let asked = serde_json::to_string(&asked).unwrap_or_default();
        let command = [INTERPRETER, "-c", PROBE, &asked].map(str::to_owned).to_vec();
        let exec = ExecConfig { cmd: Some(command), attach_stdout: Some(true), ..ExecConfig::default() };
        let docker = &self.connected.docker;
        let output = async {
            let exec = docker.create_exec(container, exec).await?;
            let StartExecResults::Attached { output, .. } = docker.start_exec(&exec.id, None).await? else {
                return Ok(Vec::new());
            };
            let parts: Vec<_> = output.try_collect().await?;
            Ok(parts.into_iter().flat_map(|part| part.into_bytes().to_vec()).collect())
        };
        let output = output.await.map_err(|error: Error| engine::said(&error))?;
        serde_json::from_slice(&output).map_err(|_| format!("it said {}", String::from_utf8_lossy(&output)))
    }

    fn marks(&self) -> HashMap<String, String> {
        labels::of([(labels::DIRECTORY, self.directory.as_str()), (labels::ROLE, ROLE)])
    }

    async fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        let docker = &self.connected.docker;
        remove(docker, &container::name(id.as_str()), false).await?;
        self.volumes.remove_home(id).await?;
        let workspace = self.volumes.workspace(&Owner::local(), id.as_str());
        engine::gone(docker.remove_volume(&workspace, None::<RemoveVolumeOptions>).await)
    }

    /// What a doctor left who was killed. None works for that long, and another one may be at work.
    async fn remove_dead(&self) -> Result<(), Error> {
        let docker = &self.connected.docker;
        let is_doctors = |labels: &HashMap<String, String>| {
            labels.get(labels::DIRECTORY).is_some_and(|directory| directory.starts_with(DIRECTORY))
        };
        let filters = labels::filter([(labels::DIRECTORY, "")]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        for container in docker.list_containers(Some(options)).await? {
            let made = container.created.and_then(|seconds| Timestamp::from_second(seconds).ok());
            if container.labels.as_ref().is_some_and(is_doctors) && is_old(made) {
                remove(docker, &container.id.unwrap_or_default(), false).await?;
            }
        }
        let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
        for volume in docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default() {
            let made = volume.created_at.as_ref().and_then(|at| at.parse().ok());
            if is_doctors(&volume.labels) && is_old(made) {
                // One that a doctor uses is refused.
                let _ = docker.remove_volume(&volume.name, None::<RemoveVolumeOptions>).await;
            }
        }
        Ok(())
    }
}

fn is_old(made: Option<Timestamp>) -> bool {
    made.is_some_and(|made| Timestamp::now().duration_since(made).as_secs() > LIFE)
}

impl Target {
    fn finding(&self, (before, after): (&String, &String)) -> Finding {
        let (what, place) = (&self.what, self.place());
        let answered = before == ANSWERS;
        let detail = match (answered, after == ANSWERS) {
            (_, true) => format!("a sandbox reaches {what} ({place})"),
            (true, false) => {
                format!("a sandbox doesn't reach {what} ({place}): {after}; it answered without the rules")
            }
            (false, false) => {
                format!(
                    "a sandbox doesn't reach {what} ({place}): {after}, but nothing answered without the rules either"
                )
            }
        };
        Finding { provider: PROVIDER, ok: after != ANSWERS, detail }
    }

    fn place(&self) -> String {
        if self.port == 0 { self.address.clone() } else { format!("{}:{}", self.address, self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn a_refusal_proves_something_where_the_address_answered_before() {
        let target = Target { what: "x".to_owned(), address: "10.0.0.1".to_owned(), port: 80 };
        let finding = |before: &str, after: &str| target.finding((&before.to_owned(), &after.to_owned()));
        assert!(!finding("answers", "answers").ok);
        let proven = finding("answers", "refused");
        assert!(proven.ok && proven.detail.contains("10.0.0.1:80") && proven.detail.contains("answered without"));
        assert!(finding("silent", "refused").detail.contains("nothing answered"));
    }
}
