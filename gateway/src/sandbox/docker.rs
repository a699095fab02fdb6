//! Sandboxes as Docker containers: one each, hardened, on images that this binary can build.
//!
//! Labels say whose a container is, the records what becomes of it. Each has its own network rules, so
//! that the gateway alone reaches it and it reaches what its environment allows. Containers go on when the gateway ends.

mod adoption;
mod container;
mod doctor;
mod end;
mod engine;
mod firewall;
mod image;
mod labels;
mod launch;
mod network;
mod sources;
mod volumes;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future::BoxFuture;

use super::{
    Endpoint, FleetConfig, Found, LaunchRequest, Plan, Profiles, Progress, ProviderError, SandboxId, SandboxProvider,
    WorkspaceStore,
};
use adoption::Backend;
use engine::Engine;
use image::Images;
use volumes::Volumes;
use watch::Watch;

pub(super) use doctor::doctor;
pub(super) use sources::reference;

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

    fn hinder(&self, reason: Option<String>) {
        *self.hindrance.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

impl SandboxProvider for DockerProvider {
    fn variant(&self) -> &'static str {
        "docker"
    }

    fn accept(&self, request: &LaunchRequest) -> Result<(), ProviderError> {
        if self.profiles.accept(self.variant(), request)?.pod.is_none() {
            return Ok(());
        }
        let message = "The docker provider has no pods: the operator has to take 'pod' out of this environment.";
        Err(ProviderError::Refused(message.to_owned()))
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
            // What one caller asked for besides is no reason to call all launches impossible.
            let is_default = request.environment.is_none() && request.image.is_none();
            match &prepared {
                Ok(()) => self.hinder(None),
                Err(error) if is_default => self.hinder(Some(error.to_string())),
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
            let Some(backend) = backend.and_then(Backend::from_text) else {
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

    fn ran_out_of_memory<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, bool> {
        Box::pin(self.watch.ran_out_of_memory(id))
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
        end::REMOVAL
    }
}
