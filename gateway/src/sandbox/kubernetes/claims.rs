//! The files of sandboxes in pods: a claim for each name of an owner where the cluster has storage for it, else a folder of the
//! pod, which ends with it.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use sha2::{Digest, Sha256};

use super::cluster::{Cluster, said, status};
use super::labels;
use super::objects::{self, Storage};
use crate::sandbox::size::Size;
use crate::sandbox::store::{Rest, StoredFiles, WorkspaceStore};
use crate::sandbox::{Owner, Plan, ProviderError, SandboxId};

/// Letters of a claim's name that are the sandbox's.
const READABLE: usize = 40;

/// The claims of a gateway.
#[derive(Clone)]
pub(super) struct Claims {
    cluster: Arc<Cluster>,
    gateway: String,
    storage: Option<Storage>,
}

impl Claims {
    pub(super) fn new(cluster: Arc<Cluster>, gateway: &str, storage: Option<Storage>) -> Self {
        Self { cluster, gateway: gateway.to_owned(), storage }
    }

    /// Makes the claim of a launch unless it is there; its name. None where files end with the pod.
    pub(super) async fn make(&self, plan: &Plan, disk: Option<Size>) -> Result<Option<String>, ProviderError> {
        let Some(storage) = &self.storage else { return Ok(None) };
        let storage = Storage { size: disk.unwrap_or(storage.size), ..storage.clone() };
        let name = self.name(&plan.owner, &plan.request.name);
        let wanted = objects::claim(&self.gateway, plan, &name, &storage);
        match self.api().await?.create(&PostParams::default(), &wanted).await {
            Ok(_) => Ok(Some(name)),
            Err(error) if status(&error) == Some(409) => Ok(Some(name)),
            Err(error) => Err(ProviderError::Failed(format!("a claim for its files can't be made: {}", said(&error)))),
        }
    }

    async fn api(&self) -> Result<Api<PersistentVolumeClaim>, ProviderError> {
        Ok(self.cluster.connected().await?.api())
    }

    /// Readable, a DNS label, and never another's.
    fn name(&self, owner: &Owner, name: &str) -> String {
        let mut digest = Sha256::new();
        for part in [&self.gateway, &owner.tenant, &owner.principal, name] {
            digest.update(part);
            digest.update([0]);
        }
        let digest = hex::encode(digest.finalize());
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let readable: String = name.chars().map(plain).take(READABLE).collect();
        format!("cellgate-{readable}-{}", &digest[..12])
    }

    async fn found(&self, owner: &Owner, name: &str) -> io::Result<Option<PersistentVolumeClaim>> {
        if self.storage.is_none() {
            return Ok(None);
        }
        let api = self.api().await.map_err(io::Error::other)?;
        api.get_opt(&self.name(owner, name)).await.map_err(|error| io::Error::other(said(&error)))
    }
}

impl WorkspaceStore for Claims {
    fn place(&self, owner: &Owner, name: &str) -> String {
        match &self.storage {
            Some(_) => format!("the claim {}", self.name(owner, name)),
            None => "a folder of its pod".to_owned(),
        }
    }

    fn outlives_sandboxes(&self) -> bool {
        self.storage.is_some()
    }

    fn has<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        Box::pin(async { Ok(self.found(owner, name).await?.is_some()) })
    }

    fn is_unused<'a>(
        &'a self,
        owner: &'a Owner,
        name: &'a str,
        launched: &'a SandboxId,
    ) -> BoxFuture<'a, io::Result<bool>> {
        Box::pin(async {
            let labels = self.found(owner, name).await?.and_then(|claim| claim.metadata.labels).unwrap_or_default();
            Ok(labels.get(labels::MADE_FOR).is_some_and(|id| id == launched.as_str()))
        })
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<StoredFiles>>> {
        Box::pin(async {
            let api = self.api().await.map_err(io::Error::other)?;
            let selector = format!("{}={},{}=files", labels::GATEWAY, self.gateway, labels::ROLE);
            let listed = api.list(&ListParams::default().labels(&selector)).await;
            let listed = listed.map_err(|error| io::Error::other(said(&error)))?;
            let stored = listed.items.into_iter().filter_map(|claim| {
                let annotations = claim.metadata.annotations.as_ref()?;
                let owner = Owner::new(annotations.get(labels::TENANT)?, annotations.get(labels::PRINCIPAL)?).ok()?;
                let created = claim.metadata.creation_timestamp.as_ref().map(|at| at.0);
                Some(StoredFiles {
                    owner,
                    name: annotations.get(labels::NAME)?.clone(),
                    place: format!("the claim {}", claim.metadata.name.as_deref()?),
                    bytes: None,
                    changed_at: created.unwrap_or(Timestamp::UNIX_EPOCH),
                })
            });
            Ok(stored.collect())
        })
    }

    fn take_away<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<Rest>> {
        Box::pin(async {
            let nothing_left: Rest = Box::pin(async { Ok(()) });
            if self.storage.is_none() {
                return Ok(nothing_left);
            }
            let api = self.api().await.map_err(io::Error::other)?;
            match api.delete(&self.name(owner, name), &DeleteParams::background()).await {
                Ok(_) => Ok(nothing_left),
                Err(error) if status(&error) == Some(404) => Ok(nothing_left),
                Err(error) => Err(io::Error::other(said(&error))),
            }
        })
    }

    fn clear_up(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
