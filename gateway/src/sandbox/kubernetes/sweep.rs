//! What is left of sandboxes whose gateway never came back: removed by a job of the cluster, with no gateway about.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::ListParams;

use super::cluster::{Connected, said};
use super::words::{self, State};
use super::{KubernetesProvider, delete, labels, objects};
use crate::sandbox::{FleetConfig, FleetError, ProviderError};

/// A gateway that lives removes what ended long before.
const GRACE: SignedDuration = SignedDuration::from_mins(10);

/// Removes the records of sandboxes that ended some time ago, or whose time was over; what they were called.
///
/// # Errors
/// When the cluster doesn't answer, or refuses.
pub async fn sweep(config: &FleetConfig) -> Result<Vec<String>, FleetError> {
    if config.kubernetes.gateway.is_none() {
        let message = "say whose sandboxes are meant: --kubernetes-gateway".to_owned();
        return Err(ProviderError::Invalid(message).into());
    }
    let provider = KubernetesProvider::new(config, "");
    let connected = provider.cluster.connected().await?;
    let api: Api<ConfigMap> = connected.api();
    let selector = format!("{}={},{}=record", labels::GATEWAY, provider.gateway, labels::ROLE);
    let failed = |reason: String| ProviderError::Failed(reason);
    let listed = api.list(&ListParams::default().labels(&selector)).await.map_err(|error| failed(said(&error)))?;
    let mut removed = Vec::new();
    for object in listed.items.iter().filter(|object| is_over(connected, object)) {
        let name = object.metadata.name.clone().unwrap_or_default();
        delete(&api, &name).await.map_err(failed)?;
        removed.push(name);
    }
    Ok(removed)
}

fn is_over(connected: &Connected, object: &ConfigMap) -> bool {
    let is_old = |at: Timestamp| Timestamp::now().duration_since(at) > GRACE;
    if objects::record_in(object).and_then(|record| record.expires_at).is_some_and(is_old) {
        return true;
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let made_long_ago = object.metadata.creation_timestamp.as_ref().is_some_and(|at| is_old(at.0));
    match connected.pod(name) {
        None => made_long_ago,
        Some(pod) => matches!(words::state(&pod), State::Ended(_)) && ended_at(&pod).map_or(made_long_ago, is_old),
    }
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let states = pod.status.as_ref()?.container_statuses.as_ref()?.iter();
    states.filter_map(|status| Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)).max()
}
