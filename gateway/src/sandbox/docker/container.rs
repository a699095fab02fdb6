//! A sandbox's container, as the engine is asked for it. Pure, but for reading its log.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, DeviceRequest, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountType, PortBinding, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::TryStreamExt;

use super::labels;
use super::volumes::Names;
use crate::sandbox::Plan;
use crate::sandbox::profile::{Gpu, Resources};
use crate::sandbox::threads::thread_counts;

/// Where Jupyter listens in it.
pub(super) const PORT: u16 = 8888;
const HOME: &str = "/home/sandbox";
const WORKSPACE: &str = "/workspace";
/// The most processes and threads where the operator says nothing.
const PIDS: u32 = 512;
/// Any user of group 0 can write in an image's writable folders.
const USER: &str = "1000:0";
/// Seconds that Jupyter gets to end its kernels before everything is killed.
pub(super) const ASKED: i32 = 2;
const TMP: &str = "rw,noexec,nosuid,nodev,mode=1777,size=256m";
const SHARED_MEMORY: i64 = 256 << 20;
/// Below what engines may have themselves: a limit can only be lowered.
const OPEN_FILES: i64 = 8192;
const LOG_SIZE: &str = "1m";
/// The end of the log that an error shows, in characters.
const LOG_SHOWN: usize = 1500;

/// Everything that decides what a container is like.
pub(super) struct Making<'a> {
    pub(super) plan: &'a Plan,
    pub(super) resources: &'a Resources,
    pub(super) image: &'a str,
    pub(super) directory: &'a str,
    pub(super) network: &'a str,
    pub(super) volumes: &'a Names,
    /// Whether its port is published on the host's loopback.
    pub(super) published: bool,
    /// The engine's cores.
    pub(super) cpus: f64,
}

/// The name of a sandbox's container.
pub(super) fn name(id: &str) -> String {
    format!("cellgate-{id}")
}

/// The container of a sandbox. Its token comes on stdin: it is in nothing that the engine stores or shows.
pub(super) fn body(making: &Making<'_>) -> ContainerCreateBody {
    let port = format!("{PORT}/tcp");
    ContainerCreateBody {
        hostname: Some("sandbox".to_owned()),
        image: Some(making.image.to_owned()),
        user: Some(USER.to_owned()),
        env: Some(variables(making)),
        labels: Some(all_labels(making)),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        exposed_ports: Some(vec![port.clone()]),
        stop_timeout: Some(ASKED.into()),
        healthcheck: Some(no_health_check()),
        host_config: Some(host_config(making, port)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(making: &Making<'_>, port: String) -> HostConfig {
    let Making { resources, .. } = making;
    let memory = i64::try_from(resources.memory.0).unwrap_or(i64::MAX);
    let on_loopback = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: Some("0".to_owned()) };
    HostConfig {
        network_mode: Some(making.network.to_owned()),
        port_bindings: making.published.then(|| HashMap::from([(port, Some(vec![on_loopback]))])),
        memory: Some(memory),
        // As much as the memory: no swap.
        memory_swap: Some(memory),
        nano_cpus: Some(nanos(resources.cpu.min(making.cpus))),
        pids_limit: Some(resources.pids.unwrap_or(PIDS).into()),
        ulimits: Some(ulimits()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
        readonly_rootfs: Some(true),
        tmpfs: Some(HashMap::from([("/tmp".to_owned(), TMP.to_owned())])),
        mounts: Some(vec![volume(&making.volumes.home, HOME), volume(&making.volumes.workspace, WORKSPACE)]),
        shm_size: Some(SHARED_MEMORY),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(labels::of([("max-size", LOG_SIZE), ("max-file", "1")])),
        }),
        // What ended stays until it was looked at.
        auto_remove: Some(false),
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
        runtime: resources.runtime.clone(),
        device_requests: resources.gpu.map(|gpu| vec![gpus(gpu)]),
        ..HostConfig::default()
    }
}

fn volume(name: &str, target: &str) -> Mount {
    let (source, target) = (Some(name.to_owned()), Some(target.to_owned()));
    Mount { typ: Some(MountType::VOLUME), source, target, ..Mount::default() }
}

fn gpus(gpu: Gpu) -> DeviceRequest {
    let count = match gpu {
        Gpu::All => -1,
        Gpu::Some(count) => count.into(),
    };
    let capabilities = Some(vec![vec!["gpu".to_owned()]]);
    DeviceRequest { count: Some(count), capabilities, ..DeviceRequest::default() }
}

fn nanos(cpus: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "cores are few")]
    let nanos = (cpus * 1e9) as i64;
    nanos
}

/// Open files, and no core dumps.
pub(super) fn ulimits() -> Vec<ResourcesUlimits> {
    let limit =
        |name: &str, limit| ResourcesUlimits { name: Some(name.to_owned()), soft: Some(limit), hard: Some(limit) };
    vec![limit("nofile", OPEN_FILES), limit("core", 0)]
}

/// The gateway looks after it, and each look costs a process.
pub(super) fn no_health_check() -> HealthConfig {
    HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }
}

fn variables(making: &Making<'_>) -> Vec<String> {
    let plan = making.plan;
    let mut variables = vec![
        "CELLGATE_TOKEN_STDIN=1".to_owned(),
        format!("CELLGATE_BASE_URL={}", plan.base_url),
        format!("CELLGATE_PORT={PORT}"),
        format!("CELLGATE_ROOT_DIR={WORKSPACE}"),
        format!("CELLGATE_SANDBOX={}", plan.id),
        format!("CELLGATE_INSTANCE={}", plan.instance),
    ];
    // What the caller chose comes later, and wins.
    variables.extend(thread_counts(making.resources.cpu).map(|(name, count)| format!("{name}={count}")));
    variables.extend(plan.idle.map(|idle| format!("CELLGATE_IDLE_SECONDS={}", idle.as_secs_f64())));
    variables.extend(plan.expires_at.map(|at| format!("CELLGATE_EXPIRES_AT={}", at.as_second())));
    variables
}

fn all_labels(making: &Making<'_>) -> HashMap<String, String> {
    let plan = making.plan;
    let mut all = labels::of_name(making.directory, &plan.owner, &plan.request.name);
    all.extend(labels::of([
        (labels::SANDBOX, plan.id.as_str()),
        (labels::INSTANCE, &plan.instance),
        (labels::GENERATION, &plan.generation.to_string()),
    ]));
    all.extend(plan.expires_at.map(|at| (labels::EXPIRES_AT.to_owned(), at.to_string())));
    all
}

/// The end of what a container wrote, as one line.
pub(super) async fn last_words(docker: &Docker, container: &str) -> String {
    let options = LogsOptionsBuilder::default().stdout(true).stderr(true).tail("15").build();
    let lines: Vec<_> = docker.logs(container, Some(options)).try_collect().await.unwrap_or_default();
    let text: Vec<String> =
        lines.iter().map(|line| String::from_utf8_lossy(&line.clone().into_bytes()).trim_end().to_owned()).collect();
    let text = text.join("\n");
    let skipped = text.chars().count().saturating_sub(LOG_SHOWN);
    text.chars().skip(skipped).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::SecretString;

    use super::*;
    use crate::sandbox::profile::Profiles;
    use crate::sandbox::{LaunchRequest, Owner, SandboxId};

    #[test]
    fn a_container_is_hardened_and_holds_no_secret() {
        let request = LaunchRequest {
            name: "main".to_owned(),
            env: [("API_KEY".to_owned(), "hush".to_owned())].into(),
            ..LaunchRequest::default()
        };
        let plan = Plan {
            id: SandboxId::from_record("s-abcdefgh".to_owned()),
            instance: "i".to_owned(),
            generation: 1,
            record: String::new(),
            base_url: "/sandboxes/s-abcdefgh/".to_owned(),
            token: SecretString::from("token"),
            owner: Owner::local(),
            request: request.clone(),
            idle: Some(Duration::from_secs(3600)),
            expires_at: None,
        };
        let resources = Profiles::default().resolve(&request).unwrap();
        let making = Making {
            plan: &plan,
            resources: &resources,
            image: "cellgate/python:1",
            directory: "d",
            network: "n",
            volumes: &Names { home: "h".to_owned(), workspace: "w".to_owned() },
            published: true,
            cpus: 1.0,
        };
        let mut body = serde_json::to_value(body(&making)).unwrap();
        body.sort_all_objects();
        let text = body.to_string();
        assert!(!text.contains("hush") && !text.contains("\"token\""), "{text}");
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }
}
