//! The files of sandboxes in containers: a volume for each name of an owner.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptions};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::engine::{self, Engine};
use super::labels;
use crate::sandbox::size::Size;
use crate::sandbox::store::{Rest, StoredFiles, WorkspaceStore};
use crate::sandbox::{Owner, Plan, ProviderError, SandboxId};

/// The volumes of a data directory.
#[derive(Clone)]
pub(super) struct Volumes {
    engine: Arc<Engine>,
    directory: String,
}

impl Volumes {
    pub(super) fn new(engine: Arc<Engine>, directory: &str) -> Self {
        Self { engine, directory: directory.to_owned() }
    }

    /// The volume with the files of a name: readable, and never another's.
    pub(super) fn workspace(&self, owner: &Owner, name: &str) -> String {
        let mut digest = Sha256::new();
        for part in [&self.directory, &owner.tenant, &owner.principal, name] {
            digest.update(part);
            digest.update([0]);
        }
        let digest = hex::encode(digest.finalize());
        let plain: String =
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        format!("cellgate-{}-{}", &plain[..plain.len().min(40)], &digest[..12])
    }

    /// The volumes of a launch.
    pub(super) fn names(&self, launch: &Wanted) -> Names {
        Names { home: home(&launch.id), workspace: self.workspace(&launch.owner, &launch.name) }
    }

    /// Makes the volumes of a launch: the workspace, unless it is there, and a home.
    pub(super) async fn make(&self, docker: &Docker, launch: &Wanted) -> Result<(), ProviderError> {
        let Names { home, workspace } = self.names(launch);
        let of_home = labels::of([
            (labels::DIRECTORY, &self.directory),
            (labels::SANDBOX, launch.id.as_str()),
            (labels::INSTANCE, &launch.instance),
        ]);
        let mut of_name = labels::of_name(&self.directory, &launch.owner, &launch.name);
        of_name.insert(labels::MADE_FOR.to_owned(), launch.id.to_string());
        for (name, labels) in [(workspace, of_name), (home, of_home)] {
            let wanted = VolumeCreateRequest {
                name: Some(name),
                labels: Some(labels),
                driver_opts: launch.disk.map(|disk| HashMap::from([("size".to_owned(), disk.0.to_string())])),
                ..VolumeCreateRequest::default()
            };
            docker.create_volume(wanted).await.map_err(|error| unmade(&error, launch.disk))?;
        }
        Ok(())
    }

    /// Removes the home of a sandbox that ended.
    pub(super) async fn remove_home(&self, id: &SandboxId) -> Result<(), Error> {
        let Ok(connected) = self.engine.connected().await else { return Ok(()) };
        engine::gone(connected.docker.remove_volume(&home(id), None::<RemoveVolumeOptions>).await)
    }
}

/// A launch, as far as volumes are concerned.
pub(super) struct Wanted {
    id: SandboxId,
    instance: String,
    owner: Owner,
    name: String,
    disk: Option<Size>,
}

impl Wanted {
    pub(super) fn of(plan: &Plan, disk: Option<Size>) -> Self {
        Self {
            id: plan.id.clone(),
            instance: plan.instance.clone(),
            owner: plan.owner.clone(),
            name: plan.request.name.clone(),
            disk,
        }
    }
}

/// What the volumes of a sandbox are called.
pub(super) struct Names {
    pub(super) home: String,
    pub(super) workspace: String,
}

fn home(id: &SandboxId) -> String {
    format!("cellgate-{id}-home")
}

fn unmade(error: &Error, disk: Option<Size>) -> ProviderError {
    let said = engine::said(error);
    match disk {
        Some(disk) if said.contains("quota") || said.contains("size") => ProviderError::Refused(format!(
            "The docker provider can't keep the wish 'disk' ({disk}) here, since the engine's storage has no quotas ({said}): \
            the operator has to take it out of the environment, or keep volumes on XFS with pquota."
        )),
        _ => ProviderError::Failed(format!("a volume can't be made: {said}")),
    }
}

impl WorkspaceStore for Volumes {
    fn place(&self, owner: &Owner, name: &str) -> String {
        format!("the volume {}", self.workspace(owner, name))
    }

    fn has<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        Box::pin(async move {
            let connected = self.engine.connected().await.map_err(io::Error::other)?;
            match connected.docker.inspect_volume(&self.workspace(owner, name)).await {
                Ok(_) => Ok(true),
                Err(error) if engine::is_missing(&error) => Ok(false),
                Err(error) => Err(io::Error::other(engine::said(&error))),
            }
        })
    }

    fn is_unused<'a>(
        &'a self,
        owner: &'a Owner,
        name: &'a str,
        launched: &'a SandboxId,
    ) -> BoxFuture<'a, io::Result<bool>> {
        Box::pin(async move {
            let connected = self.engine.connected().await.map_err(io::Error::other)?;
            let found = connected.docker.inspect_volume(&self.workspace(owner, name)).await;
            let volume = found.map_err(|error| io::Error::other(engine::said(&error)))?;
            Ok(volume.labels.get(labels::MADE_FOR).is_some_and(|id| id == launched.as_str()))
        })
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<StoredFiles>>> {
        Box::pin(async move {
            let docker = &self.engine.connected().await.map_err(io::Error::other)?.docker;
            let filters = labels::filter([(labels::DIRECTORY, &self.directory), (labels::NAME, "")]);
            let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
            let listed = docker.list_volumes(Some(options)).await;
            let listed = listed.map_err(|error| io::Error::other(engine::said(&error)))?;
            let stored = listed.volumes.unwrap_or_default().into_iter().filter_map(|volume| {
                let label = |name: &str| volume.labels.get(name).cloned();
                let owner = Owner::new(&label(labels::TENANT)?, &label(labels::PRINCIPAL)?).ok()?;
                let created = volume.created_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
                Some(StoredFiles {
                    owner,
                    name: label(labels::NAME)?,
                    place: format!("the volume {}", volume.name),
                    // The engine tells it of all volumes at once, after it has read them whole.
                    bytes: None,
                    changed_at: created.unwrap_or_default(),
                })
            });
            Ok(stored.collect())
        })
    }

    fn take_away<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<Rest>> {
        Box::pin(async move {
            let connected = self.engine.connected().await.map_err(io::Error::other)?;
            let name = self.workspace(owner, name);
            let removed = connected.docker.remove_volume(&name, None::<RemoveVolumeOptions>).await;
            engine::gone(removed).map_err(|error| io::Error::other(engine::said(&error)))?;
            let rest: Rest = Box::pin(async { Ok(()) });
            Ok(rest)
        })
    }

    fn clear_up(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
