//! What a sandbox reaches, and who reaches it: rules in its own network namespace, which it can't change.
//!
//! They are put there by a container that lives for a moment and shares the namespace. They end with it, so a sandbox that
//! was started anew has none, and is not used.

use std::net::IpAddr;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{RemoveContainerOptionsBuilder, StartContainerOptions, WaitContainerOptions};
use futures_util::TryStreamExt;

use super::container::{PORT, last_words};
use super::{engine, labels};
use crate::sandbox::{Egress, ProviderError};

/// Networks that are not the internet (IANA's special-purpose registries), with the clouds' metadata in them.
const PRIVATE: &str = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, \
    192.0.0.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/4, 240.0.0.0/4";
const PRIVATE_6: &str = "::/127, ::ffff:0:0/96, 64:ff9b::/96, 64:ff9b:1::/48, fc00::/7, fe80::/10, ff00::/8";
/// Where the engine answers to names inside a container.
const RESOLVER: &str = "127.0.0.11";

/// The rules of a sandbox, for nft. `gateway` alone reaches its Jupyter, whatever it may reach itself.
pub(super) fn rules(gateway: IpAddr, egress: Egress) -> String {
    let family = if gateway.is_ipv4() { "ip" } else { "ip6" };
    let outward = match egress {
        Egress::Open => "type filter hook output priority 0; policy accept;".to_owned(),
        Egress::None => format!(
            "type filter hook output priority 0; policy drop;
            ip daddr {RESOLVER} reject
            oif lo accept
            ct state established,related accept
            reject"
        ),
        // The engine's resolver may ask the machine's name servers from in here, wherever they are.
        Egress::Internet => format!(
            "type filter hook output priority 0; policy accept;
            oif lo accept
            ct state established,related accept
            udp dport 53 accept
            ip daddr {{ {PRIVATE} }} reject
            ip6 daddr {{ {PRIVATE_6} }} reject"
        ),
    };
    format!(
        "table inet cellgate {{
        }}
        delete table inet cellgate
        table inet cellgate {{
          chain inward {{
            type filter hook input priority 0; policy drop;
            iif lo accept
            ct state established,related accept
            {family} saddr {gateway} tcp dport {PORT} accept
            reject
          }}
          chain outward {{
            {outward}
          }}
        }}"
    )
}

/// Where rules go, and for whom.
pub(super) struct Target<'a> {
    /// The sandbox's container, which runs.
    pub(super) container: &'a str,
    /// The image that has nft.
    pub(super) image: &'a str,
    pub(super) labels: std::collections::HashMap<String, String>,
}

/// Puts rules into a container's network namespace.
pub(super) async fn apply(docker: &Docker, target: &Target<'_>, rules: &str) -> Result<(), ProviderError> {
    let failed =
        |error: Error| ProviderError::Failed(format!("its network rules can't be set: {}", engine::said(&error)));
    let created = docker.create_container(None, helper(target, rules)).await.map_err(failed)?;
    let ran = run(docker, &created.id).await;
    let removal = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    let removed = engine::gone(docker.remove_container(&created.id, Some(removal)).await);
    ran?;
    removed.map_err(failed)
}

async fn run(docker: &Docker, id: &str) -> Result<(), ProviderError> {
    let failed = |reason: &str| ProviderError::Failed(format!("its network rules can't be set: {reason}"));
    docker.start_container(id, None::<StartContainerOptions>).await.map_err(|error| failed(&engine::said(&error)))?;
    let waited: Result<Vec<_>, Error> = docker.wait_container(id, None::<WaitContainerOptions>).try_collect().await;
    match waited {
        Ok(_) => Ok(()),
        Err(Error::DockerContainerWaitError { .. }) => Err(failed(&last_words(docker, id).await)),
        Err(error) => Err(failed(&engine::said(&error))),
    }
}

fn helper(target: &Target<'_>, rules: &str) -> ContainerCreateBody {
    let mut labels = target.labels.clone();
    labels.insert(labels::ROLE.to_owned(), "rules".to_owned());
    ContainerCreateBody {
        image: Some(target.image.to_owned()),
        entrypoint: Some(vec!["/usr/sbin/nft".to_owned()]),
        cmd: Some(vec![rules.to_owned()]),
        user: Some("0:0".to_owned()),
        labels: Some(labels),
        healthcheck: Some(super::container::no_health_check()),
        host_config: Some(HostConfig {
            network_mode: Some(format!("container:{}", target.container)),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(vec!["NET_ADMIN".to_owned()]),
            security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
            readonly_rootfs: Some(true),
            memory: Some(64 << 20),
            memory_swap: Some(64 << 20),
            pids_limit: Some(16),
            ulimits: Some(super::container::ulimits()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}
