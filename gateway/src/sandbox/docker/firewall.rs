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

/// Networks that are not the internet (from IANA's special-purpose registries; those of documentation are nobody's), with most
/// clouds' metadata in them, and Azure's.
const PRIVATE: &str = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 168.63.129.16, 169.254.0.0/16, 172.16.0.0/12, \
    192.0.0.0/24, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, \
    224.0.0.0/4, 240.0.0.0/4";
const PRIVATE_6: &str = "::/127, ::ffff:0:0/96, 64:ff9b::/96, 64:ff9b:1::/48, 100::/64, 2001::/23, 2002::/16, \
    fc00::/7, fe80::/10, ff00::/8";
/// Where the engine answers to names inside a container.
const RESOLVER: &str = "127.0.0.11";

/// The rules of a sandbox, for nft. `gateway` alone reaches its Jupyter, whatever it may reach itself.
///
/// What it began before they were set is judged by them as well: of what goes out, only answers go out unjudged.
pub(super) fn rules(gateway: IpAddr, egress: Egress, machine: &[IpAddr]) -> String {
    let family = if gateway.is_ipv4() { "ip" } else { "ip6" };
    let hook = "type filter hook output priority 0; policy";
    let outward = match egress {
        Egress::Open => format!("{hook} accept;"),
        Egress::None => format!(
            "{hook} drop;
            ip daddr {RESOLVER} reject
            oif lo accept
            ct direction reply accept
            reject"
        ),
        // The engine's resolver may ask the machine's name servers from in here, wherever they are.
        Egress::Internet => format!(
            "{hook} accept;
            oif lo accept
            ct direction reply accept
            udp dport 53 accept
            ip daddr {{ {PRIVATE} }} reject
            ip6 daddr {{ {PRIVATE_6} }} reject
            {}",
            machine.iter().map(own).collect::<String>()
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
            ct direction reply ct state established,related accept
            {family} saddr {gateway} tcp dport {PORT} accept
            reject
          }}
          chain outward {{
            {outward}
          }}
        }}"
    )
}

/// The rule for one of the machine's own addresses, which may be one of the internet's.
fn own(address: &IpAddr) -> String {
    let family = if address.is_ipv4() { "ip" } else { "ip6" };
    format!("{family} daddr {address} reject\n            ")
}

/// The addresses of the machine that the gateway runs on. In a container they are the container's.
pub(super) fn machine() -> Vec<IpAddr> {
    let networks = sysinfo::Networks::new_with_refreshed_list();
    let addresses = networks.values().flat_map(|network| network.ip_networks().iter().map(|network| network.addr));
    let mut addresses: Vec<IpAddr> = addresses.filter(|address| !address.is_loopback()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::rules;
    use crate::sandbox::Egress;

    #[test]
    fn what_a_sandbox_began_is_never_let_out_for_being_there_already() {
        let gateway = IpAddr::V4(Ipv4Addr::new(172, 18, 0, 1));
        for egress in [Egress::None, Egress::Internet] {
            let rules = rules(gateway, egress, &["192.0.2.2".parse().unwrap()]);
            let (inward, outward) = rules.split_once("chain outward").unwrap();
            assert!(!outward.contains("established") && outward.contains("ct direction reply accept"), "{outward}");
            assert!(inward.contains("ip saddr 172.18.0.1 tcp dport 8888 accept"), "{inward}");
            assert_eq!(outward.contains("ip daddr 192.0.2.2 reject"), egress == Egress::Internet);
        }
        assert!(!rules(gateway, Egress::Open, &[]).split_once("chain outward").unwrap().1.contains("reject"));
    }
}
