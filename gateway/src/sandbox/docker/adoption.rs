//! Containers that an earlier gateway made: whether they run still, and are what was made.

use std::net::IpAddr;

use bollard::errors::Error;
use serde::{Deserialize, Serialize};

use super::engine::Connected;
use super::watch::{self, Watched};
use super::{DockerProvider, firewall, labels, network};
use crate::sandbox::{Egress, Found, Progress, ProviderError, SandboxId};

/// By what a container is known after a restart of the gateway.
#[derive(Serialize, Deserialize)]
pub(super) struct Backend {
    container: String,
    started_at: Option<String>,
    /// Where the gateway's calls came from when its rules were set.
    gateway: IpAddr,
    /// What its rules let it reach.
    egress: Egress,
}

impl Backend {
    pub(super) fn new(container: String, started_at: Option<String>, gateway: IpAddr, egress: Egress) -> Self {
        Self { container, started_at, gateway, egress }
    }

    /// As it stands in a record.
    pub(super) fn to_text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl DockerProvider {
    /// What there is of a sandbox.
    pub(super) async fn found(&self, id: &SandboxId, backend: &Backend) -> Result<Found, Error> {
        let Ok(connected) = self.engine.connected().await else { return Ok(self.unseen(id, backend)) };
        let docker = &connected.docker;
        let known = Watched {
            container: backend.container.clone(),
            started_at: backend.started_at.clone(),
            ended: None,
            out_of_memory: None,
        };
        if let Some(reason) = watch::ended(docker, &known).await? {
            return Ok(Found::Gone(Some(reason)));
        }
        let bridge = network::bridge(connected).await?;
        if bridge.gateway != backend.gateway
            && let Err(error) = self.rule_again(connected, id, backend, bridge.gateway).await
        {
            return Ok(Found::Gone(Some(format!("the gateway's own address changed, and {error}"))));
        }
        self.watch.add(id, &backend.container, backend.started_at.clone());
        Ok(Found::Here)
    }

    /// The engine doesn't answer now: whether the sandbox goes on turns out when it does.
    pub(super) fn unseen(&self, id: &SandboxId, backend: &Backend) -> Found {
        self.watch.add(id, &backend.container, backend.started_at.clone());
        Found::Here
    }

    /// A gateway in a container may have another address after a restart, and a sandbox lets nobody in but its gateway.
    async fn rule_again(
        &self,
        connected: &Connected,
        id: &SandboxId,
        backend: &Backend,
        gateway: IpAddr,
    ) -> Result<(), ProviderError> {
        let docker = &connected.docker;
        let image = self.images.ready(docker, &self.images.with_nft(), &Progress::default()).await?;
        let labels = labels::of([(labels::DIRECTORY, self.directory.as_str()), (labels::SANDBOX, id.as_str())]);
        let target = firewall::Target { container: &backend.container, image: &image, labels };
        firewall::apply(docker, &target, &firewall::rules(gateway, backend.egress, &firewall::machine())).await
    }
}
