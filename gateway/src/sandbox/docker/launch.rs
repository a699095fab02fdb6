//! The launch of a container: made, started, ruled, and only then given its token.

use std::collections::HashMap;

use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions,
};
use secrecy::ExposeSecret;
use tokio::io::AsyncWriteExt;

use super::adoption::Backend;
use super::container::{self, Making, PORT};
use super::engine::{self, Connected};
use super::network::{self, Bridge};
use super::volumes::Wanted;
use super::{DockerProvider, firewall, labels};
use crate::points;
use crate::sandbox::profile::Resources;
use crate::sandbox::{Endpoint, Plan, Progress, ProviderError, SandboxProvider};

/// What a launch is made with.
struct Ready<'a> {
    connected: &'a Connected,
    resources: Resources,
    image: String,
    /// The image that has nft.
    with_nft: String,
    bridge: Bridge,
}

impl DockerProvider {
    pub(super) async fn start(&self, plan: &Plan, news: &Progress) -> Result<Endpoint, ProviderError> {
        let resources = self.profiles.resolve(&plan.request)?;
        let connected = self.engine.connected().await?;
        let docker = &connected.docker;
        let image = self.images.ready(docker, &resources.image, news).await?;
        let with_nft = self.images.ready(docker, &self.images.with_nft(), news).await?;
        let bridge = network::bridge(connected).await.map_err(|error| failed(&error))?;
        let ready = Ready { connected, resources, image, with_nft, bridge };
        news.say("creating the container");
        let container = self.create(plan, &ready).await?;
        points::reached("docker.created").await;
        self.watch.add(&plan.id, &container, None);
        self.run(plan, &container, &ready).await?;
        let found = docker.inspect_container(&container, None::<InspectContainerOptions>).await;
        let found = found.map_err(|error| failed(&error))?;
        let started_at = found.state.as_ref().and_then(|state| state.started_at.clone());
        self.watch.add(&plan.id, &container, started_at.clone());
        self.watch.look(docker, &plan.id).await;
        let address = address(&found, connected, &ready.bridge.id);
        let backend =
            Backend::new(container, started_at, ready.bridge.gateway, ready.resources.egress.unwrap_or_default());
        match (address, self.ended(&plan.id)) {
            (_, Some(reason)) => Err(ProviderError::Failed(reason)),
            (None, None) => Err(ProviderError::Failed("the engine gave its container no address".to_owned())),
            (Some(address), None) => Ok(Endpoint {
                url: format!("http://{address}{}", plan.base_url),
                backend: backend.to_text(),
                image: Some(ready.image),
            }),
        }
    }

    /// Makes the volumes and the container. The engine goes on with that when nobody waits for it any more, so an end waits.
    async fn create(&self, plan: &Plan, ready: &Ready<'_>) -> Result<String, ProviderError> {
        let wanted = Wanted::of(plan, ready.resources.disk);
        let volumes = self.volumes.names(&wanted);
        let body = container::body(&Making {
            plan,
            resources: &ready.resources,
            image: &ready.image,
            directory: &self.directory,
            network: &ready.bridge.id,
            volumes: &volumes,
            published: ready.connected.own_container.is_none(),
            cpus: ready.connected.cpus,
        });
        let (docker, name) = (ready.connected.docker.clone(), container::name(plan.id.as_str()));
        let (own_volumes, resources) = (self.volumes.clone(), ready.resources.clone());
        let under_way = self.under_way(&plan.id).lock_owned().await;
        let created = tokio::spawn(async move {
            let _under_way = under_way;
            own_volumes.make(&docker, &wanted).await?;
            let options = CreateContainerOptionsBuilder::default().name(&name).build();
            let created = docker.create_container(Some(options), body).await;
            created.map(|created| created.id).map_err(|error| unstarted(&error, &resources))
        });
        created.await.unwrap_or_else(|error| Err(ProviderError::Failed(error.to_string())))
    }

    /// Starts the container, sets its rules and hands it its token.
    async fn run(&self, plan: &Plan, container: &str, ready: &Ready<'_>) -> Result<(), ProviderError> {
        let docker = &ready.connected.docker;
        let options = AttachContainerOptionsBuilder::default().stream(true).stdin(true).build();
        let mut attached = docker.attach_container(container, Some(options)).await.map_err(|error| failed(&error))?;
        let started = docker.start_container(container, None::<StartContainerOptions>).await;
        started.map_err(|error| unstarted(&error, &ready.resources))?;
        points::reached("docker.started").await;
        let target = firewall::Target { container, image: &ready.with_nft, labels: self.marks(plan) };
        let rules =
            firewall::rules(ready.bridge.gateway, ready.resources.egress.unwrap_or_default(), &firewall::machine());
        if let Err(error) = firewall::apply(docker, &target, &rules).await {
            // Where the container ended at once, that is the reason.
            self.watch.look(docker, &plan.id).await;
            return Err(self.ended(&plan.id).map_or(error, ProviderError::Failed));
        }
        points::reached("docker.ruled").await;
        // Last: nothing listens before the rules hold.
        let env = serde_json::json!(plan.request.env);
        let told = format!("{}\n{env}\n", plan.token.expose_secret());
        let written = async {
            attached.input.write_all(told.as_bytes()).await?;
            attached.input.flush().await?;
            attached.input.shutdown().await
        };
        // One that ended before it read them is noticed by its end.
        let _ = written.await;
        Ok(())
    }

    /// The labels of what is made for a sandbox.
    fn marks(&self, plan: &Plan) -> HashMap<String, String> {
        labels::of([
            (labels::DIRECTORY, &self.directory),
            (labels::SANDBOX, plan.id.as_str()),
            (labels::INSTANCE, &plan.instance),
        ])
    }
}

/// Where a container's Jupyter answers: on the host's loopback, or at its own address for a gateway in a container.
fn address(found: &ContainerInspectResponse, connected: &Connected, network: &str) -> Option<String> {
    let settings = found.network_settings.as_ref()?;
    if connected.own_container.is_some() {
        return network::address_in(found, network).map(|address| format!("{address}:{PORT}"));
    }
    let published = settings.ports.as_ref()?.get(&format!("{PORT}/tcp"))?.as_ref()?;
    let on_loopback = published.iter().find(|port| port.host_ip.as_deref() == Some("127.0.0.1"))?;
    Some(format!("127.0.0.1:{}", on_loopback.host_port.as_ref()?))
}

fn failed(error: &Error) -> ProviderError {
    ProviderError::Failed(engine::said(error))
}

/// The engine's refusal, in the words of the wish that it can't keep.
fn unstarted(error: &Error, resources: &Resources) -> ProviderError {
    let said = engine::said(error);
    let lower = said.to_lowercase();
    if resources.gpu.is_some() && (lower.contains("device driver") || lower.contains("gpu") || lower.contains("nvidia"))
    {
        return ProviderError::Refused(format!(
            "The docker provider can't keep the wish 'gpu' here ({said}): leave it out, or choose another environment."
        ));
    }
    if let Some(runtime) = resources.runtime.as_ref().filter(|_| lower.contains("runtime")) {
        return ProviderError::Refused(format!(
            "The docker provider can't keep the runtime '{runtime}' of this environment ({said}): choose another environment."
        ));
    }
    ProviderError::Failed(said)
}
