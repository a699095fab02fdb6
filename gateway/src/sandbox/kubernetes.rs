//! Sandboxes as pods: one each, under Pod Security "restricted".
//!
//! What a cluster has of a sandbox hangs on its record object: deleting that removes the rest, whoever does it. Records are
//! found again there when the data directory is lost.

mod claims;
mod cluster;
mod forward;
mod labels;
mod launch;
mod objects;
mod sweep;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, LogParams};

use super::profile::{Gpu, Image, Resources};
use super::size::Size;
use super::{Endpoint, docker};
use super::{
    FleetConfig, Found, LaunchRequest, Plan, Profiles, Progress, ProviderError, Record, SandboxId, SandboxProvider,
    WorkspaceStore,
};
use claims::Claims;
use cluster::{Cluster, Connected, said, status};
use forward::Forward;
use objects::{CONTAINER, Storage, name};
use words::State;

pub use sweep::sweep;

/// Between two looks into the cache.
const POLL: Duration = Duration::from_millis(50);
/// How long everything of a sandbox may take to be gone.
const REMOVAL: Duration = Duration::from_secs(40);
/// How long the collector gets before its pod is deleted by name.
const COLLECTOR: Duration = Duration::from_secs(5);
const LOG_LINES: i64 = 15;
/// The end of the log that an error shows, in characters.
const LOG_SHOWN: usize = 1500;

/// Where sandboxes' pods are, and whose they are.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// Their namespace; the kubeconfig's, or the gateway's own, without it.
    pub namespace: Option<String>,
    /// What they are labelled as belonging to; the data directory's own id without it.
    pub gateway: Option<String>,
    /// The storage class of the claims that files are kept in; without it files end with their pod.
    pub storage_class: Option<String>,
    /// How large those claims are.
    pub storage_size: Size,
}

/// The Kubernetes provider of a gateway.
pub(super) struct KubernetesProvider {
    cluster: Arc<Cluster>,
    gateway: String,
    profiles: Arc<Profiles>,
    claims: Claims,
    /// What images of ours are called.
    base_image: String,
    /// The pods that were seen; one that is no longer seen was deleted.
    seen: Mutex<HashMap<SandboxId, Option<Forward>>>,
}

impl KubernetesProvider {
    /// The provider of a data directory; the cluster is asked nothing yet.
    pub(super) fn new(config: &FleetConfig, directory: &str) -> Self {
        let settings = &config.kubernetes;
        let gateway = settings.gateway.clone().unwrap_or_else(|| directory.to_owned());
        let cluster = Arc::new(Cluster::new(settings.namespace.clone(), &gateway));
        let storage = settings.storage_class.clone().map(|class| Storage { class, size: settings.storage_size });
        Self {
            claims: Claims::new(Arc::clone(&cluster), &gateway, storage),
            cluster,
            gateway,
            profiles: Arc::clone(&config.profiles),
            base_image: config.docker.base_image.clone(),
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<SandboxId, Option<Forward>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a pod's Jupyter is reached from here, without the path. Outside the cluster a listener is made for it.
    async fn address(&self, id: &SandboxId, pod: &Pod) -> Result<String, ProviderError> {
        let connected = self.cluster.connected().await?;
        if connected.is_inside {
            let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
            self.seen().insert(id.clone(), None);
            return Ok(if address.contains(':') {
                format!("[{address}]:{}", objects::PORT)
            } else {
                format!("{address}:{}", objects::PORT)
            });
        }
        let forward = Forward::to(connected.streams(), &name(id.as_str())).await;
        let forward = forward.map_err(|error| ProviderError::Failed(format!("no way to its pod: {error}")))?;
        let address = forward.address().to_string();
        self.seen().insert(id.clone(), Some(forward));
        Ok(address)
    }

    /// The record objects of this gateway.
    async fn records(&self, connected: &Connected) -> Result<Vec<Record>, ProviderError> {
        let api: Api<ConfigMap> = connected.api();
        let selector = format!("{}={},{}=record", labels::GATEWAY, self.gateway, labels::ROLE);
        let listed = api.list(&ListParams::default().labels(&selector)).await;
        let listed = listed.map_err(|error| ProviderError::Unavailable(said(&error)))?;
        Ok(listed.items.iter().filter_map(objects::record_in).collect())
    }

    async fn end(&self, id: &SandboxId) -> Result<(), ProviderError> {
        let not_ended = |reason: String| ProviderError::NotEnded(reason);
        let connected = self.cluster.connected().await.map_err(ProviderError::not_ended)?;
        let name = name(id.as_str());
        // What happens to be called so and is another's stays.
        let api: Api<ConfigMap> = connected.api();
        let selector = format!("{}={},{}={id}", labels::GATEWAY, self.gateway, labels::SANDBOX);
        let own = api.list(&ListParams::default().labels(&selector)).await;
        for record in own.map_err(|error| not_ended(said(&error)))?.items {
            delete(&api, record.metadata.name.as_deref().unwrap_or_default()).await.map_err(not_ended)?;
        }
        let gone = async {
            while connected.pod(&name).is_some() {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(COLLECTOR, gone).await.is_err() {
            delete::<Pod>(&connected.api(), &name).await.map_err(not_ended)?;
            let pods: Api<Pod> = connected.api();
            let gone = async {
                while pods.get_opt(&name).await.is_ok_and(|pod| pod.is_some()) {
                    tokio::time::sleep(POLL).await;
                }
            };
            if tokio::time::timeout(REMOVAL, gone).await.is_err() {
                return Err(not_ended("its pod is still being deleted".to_owned()));
            }
        }
        self.seen().remove(id);
        Ok(())
    }

    async fn found(&self, id: &SandboxId) -> Result<Found, ProviderError> {
        let connected = self.cluster.connected().await?;
        let Some(pod) = connected.pod(&name(id.as_str())) else {
            return Ok(Found::Gone(Some("its pod was deleted".to_owned())));
        };
        match words::state(&pod) {
            State::Ready => {
                let address = self.address(id, &pod).await?;
                Ok(Found::At(format!("http://{address}/sandboxes/{id}/")))
            }
            // Its node may be out of reach for a while, or its Jupyter too busy for a probe.
            State::Starting(_) if words::is_running(&pod) => {
                let address = self.address(id, &pod).await?;
                Ok(Found::At(format!("http://{address}/sandboxes/{id}/")))
            }
            State::Ended(reason) | State::Stuck(reason) | State::Starting(reason) => Ok(Found::Gone(Some(reason))),
        }
    }
}

/// What an environment asks for that a pod can't be given.
fn unkept(resources: &Resources) -> Option<&'static str> {
    let wishes = [
        ("'egress' (a network policy decides that)", resources.egress.is_some()),
        ("'pids' (a node's kubelet limits them)", resources.pids.is_some()),
        ("'gpu' of all (a pod asks for a number)", resources.gpu == Some(Gpu::All)),
    ];
    wishes.into_iter().find(|(_, wished)| *wished).map(|(wish, _)| wish)
}

/// Whether this provider can run here: the sentence for `doctor`.
pub(super) async fn doctor(config: &FleetConfig) -> Result<String, String> {
    let settings = &config.kubernetes;
    let cluster = Cluster::new(settings.namespace.clone(), settings.gateway.as_deref().unwrap_or("doctor"));
    let connected = cluster.connected().await.map_err(|error| error.to_string())?;
    let place = if connected.is_inside { "in it" } else { "outside it" };
    let files = match &settings.storage_class {
        Some(class) => format!("kept in claims of class {class}"),
        None => "not kept (no --storage-class)".to_owned(),
    };
    Ok(format!(
        "the cluster answers; the gateway runs {place}; pods in namespace {}; files are {files}",
        connected.namespace
    ))
}

/// Deletes an object in the background; one that isn't there is fine.
async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), String>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(error) if status(&error) == Some(404) => Ok(()),
        Err(error) => Err(said(&error)),
    }
}

impl SandboxProvider for KubernetesProvider {
    fn variant(&self) -> &'static str {
        "kubernetes"
    }

    fn accept(&self, request: &LaunchRequest) -> Result<(), ProviderError> {
        unkept(&self.profiles.accept(self.variant(), request)?).map_or(Ok(()), |wish| {
            Err(ProviderError::Refused(format!(
                "The kubernetes provider can't keep the wish {wish} of this environment: the operator has to take it out there."
            )))
        })
    }

    fn begin(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Err(error) = self.cluster.connected().await {
                tracing::warn!(%error, "the cluster doesn't answer yet");
            }
        })
    }

    fn recover(&self) -> BoxFuture<'_, Option<Vec<Record>>> {
        Box::pin(async {
            let connected = self.cluster.connected().await.ok()?;
            self.records(connected).await.inspect_err(|error| tracing::warn!(%error)).ok()
        })
    }

    fn prepare<'a>(&'a self, request: &'a LaunchRequest, _: &'a Progress) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async {
            self.profiles.resolve(request)?;
            self.cluster.connected().await.map(drop)
        })
    }

    fn launch<'a>(&'a self, plan: &'a Plan, progress: &'a Progress) -> BoxFuture<'a, Result<Endpoint, ProviderError>> {
        Box::pin(self.start(plan, progress))
    }

    fn adopt<'a>(&'a self, id: &'a SandboxId, _: Option<&'a str>) -> BoxFuture<'a, Found> {
        Box::pin(async { self.found(id).await.unwrap_or(Found::Unknown) })
    }

    fn runs<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, bool> {
        Box::pin(async {
            let Ok(connected) = self.cluster.connected().await else { return true };
            connected.pod(&name(id.as_str())).is_some()
        })
    }

    fn ended(&self, id: &SandboxId) -> Option<String> {
        if !self.cluster.is_known() || !self.seen().contains_key(id) {
            return None;
        }
        let Some(pod) = self.cluster.pod(&name(id.as_str())) else { return Some("its pod was deleted".to_owned()) };
        match words::state(&pod) {
            State::Ended(reason) => Some(reason),
            _ => None,
        }
    }

    fn last_words<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, String> {
        Box::pin(async {
            let Ok(connected) = self.cluster.connected().await else { return String::new() };
            let name = name(id.as_str());
            if let Some(pod) = connected.pod(&name)
                && let State::Starting(missing) | State::Stuck(missing) = words::state(&pod)
            {
                return missing;
            }
            self.log(connected, &name).await
        })
    }

    fn ran_out_of_memory<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, bool> {
        let pod = self.cluster.pod(&name(id.as_str()));
        Box::pin(std::future::ready(pod.is_some_and(|pod| words::out_of_memory(&pod))))
    }

    fn terminate<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.end(id))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SandboxId, String)>, ProviderError>> {
        Box::pin(async {
            let connected = self.cluster.connected().await?;
            let records = self.records(connected).await?;
            Ok(records.into_iter().map(|record| (record.id, record.instance)).collect())
        })
    }

    fn store(&self) -> Arc<dyn WorkspaceStore> {
        Arc::new(self.claims.clone())
    }

    fn outlives_a_stop(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), String> {
        if !self.cluster.is_known() {
            return Err("the Kubernetes API has not answered yet".to_owned());
        }
        if self.cluster.is_silent() { Err("the Kubernetes API doesn't answer".to_owned()) } else { Ok(()) }
    }

    fn grace(&self) -> Duration {
        REMOVAL
    }
}

impl KubernetesProvider {
    /// The end of what a sandbox wrote.
    async fn log(&self, connected: &Connected, pod: &str) -> String {
        let pods: Api<Pod> = connected.api();
        let options =
            LogParams { container: Some(CONTAINER.to_owned()), tail_lines: Some(LOG_LINES), ..LogParams::default() };
        let text = pods.logs(pod, &options).await.unwrap_or_default();
        let skipped = text.chars().count().saturating_sub(LOG_SHOWN);
        text.chars().skip(skipped).collect::<String>().trim().to_owned()
    }

    /// What an image of ours is called, wherever the cluster's nodes get it from.
    fn reference(&self, image: &Image) -> String {
        match image {
            Image::Ours(name) => docker::reference(name, &self.base_image),
            Image::Named(reference) => reference.clone(),
        }
    }
}
