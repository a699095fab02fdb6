//! The cluster: how it is reached, and the cache of what it has of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use tokio::sync::OnceCell;

use super::labels;
use crate::sandbox::ProviderError;

/// How long the API server may take to say that it is there.
const HELLO: Duration = Duration::from_secs(10);
/// How long the first list of pods may take.
const FIRST_LIST: Duration = Duration::from_secs(20);
/// How long the API server may take to be connected to.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may say nothing when it is asked something. Without a limit a dead connection is one for ever.
const ANSWER: Duration = Duration::from_secs(30);
/// Seconds after which it ends a watch in which nothing happens, and the watch is begun again: one that it doesn't end then
/// has stalled.
const WATCH: u32 = 20;
/// Between two looks whether a silent API server answers again.
const AGAIN: Duration = Duration::from_secs(1);

/// A cluster, connected to when it is first needed.
pub(super) struct Cluster {
    namespace: Option<String>,
    gateway: String,
    connected: OnceCell<Connected>,
}

/// A cluster that answered.
pub(super) struct Connected {
    pub(super) client: Client,
    /// For what stays open, and may be quiet for long.
    streams: Client,
    pub(super) namespace: String,
    /// The gateway runs in the cluster, so it reaches pods by their addresses.
    pub(super) is_inside: bool,
    pods: Store<Pod>,
    silent: Arc<AtomicBool>,
}

impl Cluster {
    pub(super) fn new(namespace: Option<String>, gateway: &str) -> Self {
        Self { namespace, gateway: gateway.to_owned(), connected: OnceCell::new() }
    }

    /// The cluster, if it answers or did before.
    pub(super) async fn connected(&self) -> Result<&Connected, ProviderError> {
        self.connected.get_or_try_init(|| self.connect()).await
    }

    /// Whether it stopped answering.
    pub(super) fn is_silent(&self) -> bool {
        self.connected.get().is_some_and(|connected| connected.silent.load(Ordering::Relaxed))
    }

    /// What the cache has of a pod, as far as it was ever filled.
    pub(super) fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self.connected.get()?.pod(name)
    }

    /// Whether the cache was filled.
    pub(super) fn is_known(&self) -> bool {
        self.connected.get().is_some()
    }

    async fn connect(&self) -> Result<Connected, ProviderError> {
        let unavailable = |reason: String| {
            ProviderError::Unavailable(format!(
                "the Kubernetes API can't be used ({reason}): check KUBECONFIG and the rights that it gives, or in the cluster those of the chart's Role"
            ))
        };
        let mut config = Config::infer().await.map_err(|error| unavailable(error.to_string()))?;
        let is_inside =
            std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && std::env::var_os("KUBECONFIG").is_none();
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        config.connect_timeout = Some(CONNECT);
        let mut asking = config.clone();
        (asking.read_timeout, asking.reset_reader_on_write) = (Some(ANSWER), true);
        let client = |config: Config| Client::try_from(config).map_err(|error| unavailable(error.to_string()));
        let (client, streams) = (client(asking)?, client(config)?);
        match tokio::time::timeout(HELLO, client.apiserver_version()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(unavailable(said(&error))),
            Err(_) => return Err(unavailable("no answer".to_owned())),
        }
        let own: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        if let Err(error) = own.list_metadata(&ListParams::default().limit(1)).await {
            return Err(unavailable(format!("pods in namespace {namespace} can't be listed: {}", said(&error))));
        }
        let silent = Arc::new(AtomicBool::new(false));
        let pods = watched(&client, &namespace, &self.gateway, &silent);
        match tokio::time::timeout(FIRST_LIST, pods.wait_until_ready()).await {
            Ok(Ok(())) => Ok(Connected { client, streams, namespace, is_inside, pods, silent }),
            _ => Err(unavailable(format!("pods in namespace {namespace} can't be listed"))),
        }
    }
}

impl Connected {
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Pods, for what stays open.
    pub(super) fn streams(&self) -> Api<Pod> {
        Api::namespaced(self.streams.clone(), &self.namespace)
    }

    /// What the cache has of a pod.
    pub(super) fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(&ObjectRef::new(name).within(&self.namespace))
    }
}

/// The pods of this gateway, kept up to date for as long as the process lives.
fn watched(client: &Client, namespace: &str, gateway: &str, silent: &Arc<AtomicBool>) -> Store<Pod> {
    let (reader, writer) = reflector::store();
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={gateway},{}=sandbox", labels::GATEWAY, labels::ROLE);
    let watching = watcher::Config::default().labels(&selector).timeout(WATCH);
    let events = reflector::reflector(writer, watcher(api.clone(), watching)).default_backoff();
    let silent = Arc::clone(silent);
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        loop {
            let is_silent = silent.load(Ordering::Relaxed);
            let is_answered = tokio::select! {
                event = events.next() => match event {
                    Some(event) => event.inspect_err(|error| tracing::warn!(%error, "the watch of pods broke; it is begun again")).is_ok(),
                    None => return,
                },
                // A watch that was begun again tells nothing until something happens.
                () = answers(&api), if is_silent => true,
            };
            silent.store(!is_answered, Ordering::Relaxed);
        }
    });
    reader
}

/// Waits until pods can be listed.
async fn answers(pods: &Api<Pod>) {
    loop {
        tokio::time::sleep(AGAIN).await;
        if pods.list_metadata(&ListParams::default().limit(1)).await.is_ok() {
            return;
        }
    }
}

/// What the API server said.
pub(super) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => {
            let mut reason = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                reason = cause.to_string();
                source = cause.source();
            }
            reason
        }
    }
}

/// The HTTP status that it refused with.
pub(super) fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
