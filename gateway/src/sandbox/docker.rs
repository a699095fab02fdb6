//! Sandboxes as Docker containers: one each, hardened, on images that this binary can build.
//!
//! Labels say whose a container is, the records what becomes of it. Each has its own network rules, so
//! that the gateway alone reaches it and it reaches what its environment allows. Containers go on when the gateway ends.

mod container;
mod doctor;
mod engine;
mod firewall;
mod image;
mod labels;
mod network;
mod sources;
mod volumes;
mod watch;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, InspectContainerOptions,
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions, StopContainerOptionsBuilder,
};
use futures_util::future::BoxFuture;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::profile::Resources;
use super::{
    Egress, Endpoint, FleetConfig, Found, LaunchRequest, Plan, Profiles, Progress, ProviderError, SandboxId,
    SandboxProvider, WorkspaceStore, check_variables,
};
use crate::points;
use container::{ASKED, Making, PORT};
use engine::{Connected, Engine};
use image::Images;
use volumes::{Volumes, Wanted};
use watch::{Watch, Watched};

pub(super) use doctor::doctor;

/// Between two looks whether something is gone.
const POLL: Duration = Duration::from_millis(50);
/// How long the engine may take to remove a container.
const REMOVAL: Duration = Duration::from_secs(20);
/// How long the engine may take to answer before an adoption goes on without it.
const ADOPTION: Duration = Duration::from_secs(5);

/// How to reach the engine, and what images are built on.
#[derive(Clone, Debug)]
pub struct DockerConfig {
    /// The engine's address, `unix://...` or `tcp://...`; found out without it.
    pub host: Option<String>,
    /// The image that ours are built on, a Debian 13.
    pub base_image: String,
}

/// The Docker provider of a data directory.
pub(super) struct DockerProvider {
    engine: Arc<Engine>,
    images: Images,
    profiles: Arc<Profiles>,
    volumes: Volumes,
    watch: Arc<Watch>,
    directory: String,
    /// Containers that are being created. A request goes on in the engine when nobody waits for it any more, so an end
    /// waits for it.
    creating: Mutex<HashMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>,
    /// Why launches can't be made now, as far as is known.
    hindrance: Mutex<Option<String>>,
}

/// By what a container is known after a restart of the gateway.
#[derive(Serialize, Deserialize)]
struct Backend {
    container: String,
    started_at: Option<String>,
    /// Where the gateway's calls came from when its rules were set.
    gateway: IpAddr,
    /// What its rules let it reach.
    egress: Egress,
}

impl DockerProvider {
    /// The provider of a data directory; the engine is asked nothing yet.
    pub(super) fn new(config: &FleetConfig, directory: &str) -> Self {
        let engine = Arc::new(Engine::new(config.docker.host.clone()));
        Self {
            images: Images::new(config.docker.base_image.clone()),
            profiles: Arc::clone(&config.profiles),
            volumes: Volumes::new(Arc::clone(&engine), directory),
            watch: Arc::new(Watch::new(Arc::clone(&engine), directory)),
            engine,
            directory: directory.to_owned(),
            creating: Mutex::default(),
            hindrance: Mutex::new(Some("the Docker Engine has not answered yet".to_owned())),
        }
    }

    async fn prepared(&self, request: &LaunchRequest, news: &Progress) -> Result<(), ProviderError> {
        let resources = self.profiles.resolve(request)?;
        let docker = &self.engine.connected().await?.docker;
        self.images.ready(docker, &self.images.with_nft(), news).await?;
        self.images.ready(docker, &resources.image, news).await?;
        Ok(())
    }

    async fn start(&self, plan: &Plan, news: &Progress) -> Result<Endpoint, ProviderError> {
        let resources = self.profiles.resolve(&plan.request)?;
        let connected = self.engine.connected().await?;
        let docker = &connected.docker;
        let image = self.images.ready(docker, &resources.image, news).await?;
        let with_nft = self.images.ready(docker, &self.images.with_nft(), news).await?;
        let bridge = network::bridge(connected).await.map_err(|error| failed(&error))?;
        news.say("creating the container");
        let container = self.create(plan, &resources, connected, (&image, &bridge.id)).await?;
        points::reached("docker.created").await;
        self.watch.add(&plan.id, &container, None);
        let options = AttachContainerOptionsBuilder::default().stream(true).stdin(true).build();
        let mut attached = docker.attach_container(&container, Some(options)).await.map_err(|error| failed(&error))?;
        docker
            .start_container(&container, None::<StartContainerOptions>)
            .await
            .map_err(|error| unstarted(&error, &resources))?;
        points::reached("docker.started").await;
        let target = firewall::Target { container: &container, image: &with_nft, labels: self.marks(plan) };
        if let Err(error) = firewall::apply(docker, &target, &firewall::rules(bridge.gateway, resources.egress)).await {
            // Where the container ended at once, that is the reason.
            self.watch.look(docker, &plan.id).await;
            return Err(self.ended(&plan.id).map_or(error, ProviderError::Failed));
        }
        points::reached("docker.ruled").await;
        // Last: nothing listens before the rules hold.
        let line = |text: &str| format!("{text}\n");
        let told = line(plan.token.expose_secret()) + &line(&serde_json::json!(plan.request.env).to_string());
        let written = async {
            attached.input.write_all(told.as_bytes()).await?;
            attached.input.flush().await?;
            attached.input.shutdown().await
        };
        // One that ended before it read them is noticed by its end.
        let _ = written.await;
        let found = docker.inspect_container(&container, None::<InspectContainerOptions>).await;
        let found = found.map_err(|error| failed(&error))?;
        let started_at = found.state.as_ref().and_then(|state| state.started_at.clone());
        let address = address(&found, connected, &bridge.id);
        self.watch.add(&plan.id, &container, started_at.clone());
        self.watch.look(docker, &plan.id).await;
        let backend = Backend { container, started_at, gateway: bridge.gateway, egress: resources.egress };
        match (address, self.ended(&plan.id)) {
            (_, Some(reason)) => Err(ProviderError::Failed(reason)),
            (None, None) => Err(ProviderError::Failed("the engine gave its container no address".to_owned())),
            (Some(address), None) => Ok(Endpoint {
                url: format!("http://{address}{}", plan.base_url),
                backend: serde_json::to_string(&backend).ok(),
                image: Some(image),
            }),
        }
    }

    /// Makes the volumes and the container. Dropping the future doesn't stop the engine, so an end waits for this.
    async fn create(
        &self,
        plan: &Plan,
        resources: &Resources,
        connected: &Connected,
        (image, network): (&str, &str),
    ) -> Result<String, ProviderError> {
        let wanted = Wanted {
            id: &plan.id,
            instance: &plan.instance,
            owner: &plan.owner,
            name: &plan.request.name,
            disk: resources.disk,
        };
        let under_way = self.under_way(&plan.id).lock_owned().await;
        let (workspace, home) = self.volumes.make(&wanted).await?;
        let body = container::body(&Making {
            plan,
            resources,
            image,
            directory: &self.directory,
            network,
            home: &home,
            workspace: &workspace,
            published: connected.own_container.is_none(),
            cpus: connected.cpus,
        });
        let (docker, name) = (connected.docker.clone(), container::name(plan.id.as_str()));
        let created = tokio::spawn(async move {
            let _under_way = under_way;
            created(&docker, &name, body).await
        });
        let created = created.await.map_err(|error| ProviderError::Failed(error.to_string()))?;
        created.map_err(|error| unstarted(&error, resources))
    }

    fn under_way(&self, id: &SandboxId) -> Arc<tokio::sync::Mutex<()>> {
        let mut creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(creating.entry(id.clone()).or_default())
    }

    /// The labels of what is made for a sandbox.
    fn marks(&self, plan: &Plan) -> HashMap<String, String> {
        labels::of([
            (labels::DIRECTORY, &self.directory),
            (labels::SANDBOX, plan.id.as_str()),
            (labels::INSTANCE, &plan.instance),
        ])
    }

    /// The containers of a sandbox, those of a moment too.
    async fn containers_of(&self, docker: &Docker, id: &SandboxId) -> Result<Vec<ContainerSummary>, Error> {
        let filters = labels::filter([(labels::DIRECTORY, &self.directory), (labels::SANDBOX, id.as_str())]);
        docker.list_containers(Some(ListContainersOptionsBuilder::default().all(true).filters(&filters).build())).await
    }

    async fn end(&self, id: &SandboxId) -> Result<(), ProviderError> {
        let not_ended = |reason: String| ProviderError::NotEnded(reason);
        let docker = &self.engine.connected().await.map_err(|error| not_ended(error.to_string()))?.docker;
        let under_way = self.under_way(id);
        let _created = under_way.lock().await;
        let ended = async {
            for container in self.containers_of(docker, id).await? {
                let is_sandbox = container.labels.is_some_and(|labels| !labels.contains_key(labels::ROLE));
                remove(docker, &container.id.unwrap_or_default(), is_sandbox).await?;
            }
            self.volumes.remove_home(id).await
        };
        ended.await.map_err(|error| not_ended(engine::said(&error)))?;
        self.watch.remove(id);
        self.creating.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(())
    }

    async fn found(&self, id: &SandboxId, backend: &Backend) -> Result<Found, Error> {
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
        firewall::apply(docker, &target, &firewall::rules(gateway, backend.egress)).await
    }

    /// The engine doesn't answer now: whether the sandbox goes on turns out when it does.
    fn unseen(&self, id: &SandboxId, backend: &Backend) -> Found {
        self.watch.add(id, &backend.container, backend.started_at.clone());
        Found::Here
    }

    fn hinder(&self, reason: Option<String>) {
        *self.hindrance.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

impl SandboxProvider for DockerProvider {
    fn variant(&self) -> &'static str {
        "docker"
    }

    fn accept(&self, request: &LaunchRequest) -> Result<(), ProviderError> {
        let kept = [
            "environment",
            "environment_version",
            "gpu",
            "image",
            "cpu",
            "memory",
            "env",
            "ttl_seconds",
            "idle_timeout_seconds",
        ];
        if let Some(wish) = request.unkept(&kept) {
            return Err(ProviderError::Unsupported { variant: self.variant(), wish });
        }
        check_variables(&request.env)?;
        self.profiles.resolve(request).map(drop)
    }

    fn begin(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // When a container joins a network, the engine may cut the connections that it has.
            if let Ok(connected) = self.engine.connected().await
                && connected.own_container.is_some()
                && let Err(error) = network::bridge(connected).await
            {
                tracing::warn!(%error, "the gateway's container can't join the sandboxes' network yet");
            }
        })
    }

    fn prepare<'a>(
        &'a self,
        request: &'a LaunchRequest,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            let prepared = self.prepared(request, progress).await;
            match &prepared {
                Ok(()) => self.hinder(None),
                Err(ProviderError::Unavailable(reason)) => self.hinder(Some(reason.clone())),
                Err(_) => {}
            }
            prepared
        })
    }

    fn launch<'a>(&'a self, plan: &'a Plan, progress: &'a Progress) -> BoxFuture<'a, Result<Endpoint, ProviderError>> {
        Box::pin(self.start(plan, progress))
    }

    fn adopt<'a>(&'a self, id: &'a SandboxId, backend: Option<&'a str>) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let Some(backend) = backend.and_then(|backend| serde_json::from_str::<Backend>(backend).ok()) else {
                return Found::Unclear("its record doesn't tell which container it is".to_owned());
            };
            match tokio::time::timeout(ADOPTION, self.found(id, &backend)).await {
                Ok(Ok(found)) => found,
                Ok(Err(_)) | Err(_) => self.unseen(id, &backend),
            }
        })
    }

    fn runs<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, bool> {
        Box::pin(async {
            let Ok(connected) = self.engine.connected().await else { return true };
            self.containers_of(&connected.docker, id).await.is_ok_and(|found| !found.is_empty())
        })
    }

    fn ended(&self, id: &SandboxId) -> Option<String> {
        self.watch.get(id)?.ended
    }

    fn last_words<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, String> {
        Box::pin(async {
            match (self.watch.get(id), self.engine.connected().await) {
                (Some(watched), Ok(connected)) => container::last_words(&connected.docker, &watched.container).await,
                _ => String::new(),
            }
        })
    }

    fn ran_out_of_memory(&self, id: &SandboxId) -> bool {
        self.watch.ran_out_of_memory(id)
    }

    fn terminate<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.end(id))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SandboxId, String)>, ProviderError>> {
        Box::pin(async {
            let docker = &self.engine.connected().await?.docker;
            let filters = labels::filter([(labels::DIRECTORY, &self.directory), (labels::SANDBOX, "")]);
            let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
            let listed = docker.list_containers(Some(options)).await;
            let listed = listed.map_err(|error| ProviderError::Unavailable(engine::said(&error)))?;
            let marks = listed.into_iter().filter_map(|container| {
                let mut labels = container.labels?;
                Some((SandboxId::from_record(labels.remove(labels::SANDBOX)?), labels.remove(labels::INSTANCE)?))
            });
            Ok(marks.collect())
        })
    }

    fn store(&self) -> Arc<dyn WorkspaceStore> {
        Arc::new(self.volumes.clone())
    }

    fn outlives_a_stop(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), String> {
        if self.watch.is_silent() {
            return Err("the Docker Engine doesn't answer".to_owned());
        }
        let hindrance = self.hindrance.lock().unwrap_or_else(PoisonError::into_inner).clone();
        hindrance.map_or(Ok(()), Err)
    }

    fn grace(&self) -> Duration {
        REMOVAL
    }
}

/// Creates a container, or finds it made by the same request, whose answer got lost.
async fn created(docker: &Docker, name: &str, body: ContainerCreateBody) -> Result<String, Error> {
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    docker.create_container(Some(options), body).await.map(|created| created.id)
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

/// Asks Jupyter to end, then removes its container with everything in it, and waits until it is gone.
async fn remove(docker: &Docker, container: &str, is_sandbox: bool) -> Result<(), Error> {
    if is_sandbox {
        let options = StopContainerOptionsBuilder::default().t(ASKED).build();
        match docker.stop_container(container, Some(options)).await {
            // It had ended, or is going already.
            Err(error) if matches!(engine::status(&error), Some(304 | 404 | 409)) => {}
            stopped => stopped?,
        }
    }
    let removal = async {
        loop {
            let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
            match engine::gone(docker.remove_container(container, Some(options)).await) {
                // Somebody removes it just now.
                Err(error) if engine::status(&error) == Some(409) => tokio::time::sleep(POLL).await,
                removed => return removed,
            }
        }
    };
    tokio::time::timeout(REMOVAL, removal).await.unwrap_or(Err(Error::RequestTimeoutError))
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
