//! The Docker Engine: where it is, whether it answers, and whether the gateway itself runs in it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::InspectContainerOptions;
use tokio::sync::OnceCell;

use crate::sandbox::ProviderError;

/// How long the engine may take to begin its answer.
const PATIENCE: u64 = 120;
/// How long it may take to say that it is there.
const HELLO: Duration = Duration::from_secs(10);
/// Where engines listen: Docker's, rootless Docker's, Docker Desktop's, then Podman's.
const SOCKETS: [&str; 6] = [
    "/var/run/docker.sock",
    "$XDG_RUNTIME_DIR/docker.sock",
    "$HOME/.docker/run/docker.sock",
    "$HOME/.docker/desktop/docker.sock",
    "$XDG_RUNTIME_DIR/podman/podman.sock",
    "/run/podman/podman.sock",
];

/// An engine, connected to when it is first needed.
pub(super) struct Engine {
    host: Option<String>,
    connected: OnceCell<Connected>,
}

/// An engine that answered.
pub(super) struct Connected {
    pub(super) docker: Docker,
    pub(super) version: String,
    /// Its cores.
    pub(super) cpus: f64,
    /// The gateway's own container, if it runs in one of this engine's.
    pub(super) own_container: Option<String>,
}

impl Engine {
    pub(super) fn new(host: Option<String>) -> Self {
        Self { host, connected: OnceCell::new() }
    }

    /// The engine, if it answers or did before.
    pub(super) async fn connected(&self) -> Result<&Connected, ProviderError> {
        self.connected.get_or_try_init(|| self.connect()).await
    }

    async fn connect(&self) -> Result<Connected, ProviderError> {
        let host = self.address()?;
        let unavailable = |error: &Error| ProviderError::Unavailable(silent(&host, error));
        let docker = match host.strip_prefix("unix://") {
            Some(path) => Docker::connect_with_unix(path, PATIENCE, bollard::API_DEFAULT_VERSION),
            None => Docker::connect_with_http(&host, PATIENCE, bollard::API_DEFAULT_VERSION),
        };
        let docker = docker.map_err(|error| unavailable(&error))?;
        let hello = async {
            let docker = docker.negotiate_version().await?;
            let information = docker.info().await?;
            Ok((docker, information))
        };
        let (docker, information) = match tokio::time::timeout(HELLO, hello).await {
            Ok(answer) => answer.map_err(|error| unavailable(&error))?,
            Err(_) => return Err(unavailable(&Error::RequestTimeoutError)),
        };
        let own_container = own_container(&docker).await;
        if own_container.is_none() && !is_on_this_machine(&host) {
            return Err(ProviderError::Unavailable(format!(
                "the engine at {host} is on another machine, and sandboxes are published on its loopback: run the gateway there"
            )));
        }
        let cpus = information.ncpu.and_then(|cpus| i32::try_from(cpus).ok()).map_or(1.0, f64::from);
        let version = information.server_version.unwrap_or_default();
        Ok(Connected { docker, version, cpus, own_container })
    }

    /// The configured address, else the first socket that is there.
    fn address(&self) -> Result<String, ProviderError> {
        let in_variable = || std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        if let Some(host) = self.host.clone().filter(|host| !host.is_empty()).or_else(in_variable) {
            let known = ["unix://", "tcp://", "http://"].iter().any(|scheme| host.starts_with(scheme));
            let message = format!("the engine's address '{host}' has to begin with unix:// or tcp://");
            return if known { Ok(host) } else { Err(ProviderError::Unavailable(message)) };
        }
        let sockets: Vec<PathBuf> = SOCKETS.iter().filter_map(|socket| expanded(socket)).collect();
        match sockets.iter().find(|socket| socket.exists()) {
            Some(socket) => Ok(format!("unix://{}", socket.display())),
            None => Err(ProviderError::Unavailable(
                "no Docker Engine was found: start one, or say where it is with --docker-host".to_owned(),
            )),
        }
    }
}

fn expanded(socket: &str) -> Option<PathBuf> {
    let Some((variable, rest)) = socket.strip_prefix('$').and_then(|socket| socket.split_once('/')) else {
        return Some(socket.into());
    };
    Some(PathBuf::from(std::env::var_os(variable)?).join(rest))
}

fn is_on_this_machine(host: &str) -> bool {
    let Some((_, address)) = host.split_once("://") else { return false };
    let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
    let is_loopback = name.trim_matches(['[', ']']).parse().is_ok_and(|address: IpAddr| address.is_loopback());
    host.starts_with("unix://") || name == "localhost" || is_loopback
}

/// The container that this process runs in, if it is one of the engine's: its id is in the mounts that every engine makes
/// for a container's `/etc/hosts`.
async fn own_container(docker: &Docker) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let id = container_in(&mounts)?;
    let found = docker.inspect_container(id, None::<InspectContainerOptions>).await.ok()?;
    found.id
}

fn container_in(mounts: &str) -> Option<&str> {
    let of_hosts = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/etc/hosts"))?;
    of_hosts.split([' ', '/']).find(|part| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The sentence for an engine that doesn't answer.
fn silent(host: &str, error: &Error) -> String {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = cause.to_string();
        source = cause.source();
    }
    let next = if reason.contains("ermission denied") {
        "let the gateway's user use it (group docker), or run it rootless"
    } else {
        "start it, or say where it is with --docker-host"
    };
    format!("the Docker Engine at {host} doesn't answer ({reason}): {next}")
}

/// What the engine said, as a failure of a launch or an end.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.trim_end().to_owned(),
        // In the middle of its answer, such as a build's.
        Error::DockerStreamError { error } => error.trim_end().to_owned(),
        Error::RequestTimeoutError => "the Docker Engine doesn't answer".to_owned(),
        error => format!("the Docker Engine doesn't answer ({error})"),
    }
}

/// The HTTP status that the engine refused with.
pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The engine doesn't have it.
pub(super) fn is_missing(error: &Error) -> bool {
    status(error) == Some(404)
}

/// Something that was to be removed is gone, now or before.
pub(super) fn gone(removed: Result<(), Error>) -> Result<(), Error> {
    match removed {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::{container_in, is_on_this_machine};

    #[test]
    fn a_gateway_in_a_container_knows_which() {
        let id = "4f".repeat(32);
        let mounts = format!(
            "613 601 0:54 / / rw - overlay overlay rw\n\
             620 613 254:1 /docker/containers/{id}/hosts /etc/hosts rw - ext4 /dev/vda rw\n"
        );
        assert_eq!(container_in(&mounts), Some(id.as_str()));
        let podman =
            format!("1 2 0:3 /containers/overlay-containers/{id}/userdata/hosts /etc/hosts rw - tmpfs tmpfs rw");
        assert_eq!(container_in(&podman), Some(id.as_str()));
        assert_eq!(container_in("613 601 0:54 / / rw - ext4 /dev/vda rw"), None);
    }

    #[test]
    fn an_engine_elsewhere_is_told_apart() {
        assert!(is_on_this_machine("unix:///var/run/docker.sock") && is_on_this_machine("tcp://127.0.0.1:2375"));
        assert!(!is_on_this_machine("tcp://build.example.com:2375") && !is_on_this_machine("tcp://127.example.com:1"));
    }
}
