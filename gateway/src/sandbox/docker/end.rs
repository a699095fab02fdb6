//! The end of a container, and of everything else that is a sandbox's own.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, StopContainerOptionsBuilder,
};

use super::container::ASKED;
use super::{DockerProvider, engine, labels};
use crate::sandbox::{ProviderError, SandboxId};

/// Between two looks whether something is gone.
const POLL: Duration = Duration::from_millis(50);
/// How long the engine may take to remove a container.
pub(super) const REMOVAL: Duration = Duration::from_secs(20);

impl DockerProvider {
    pub(super) async fn end(&self, id: &SandboxId) -> Result<(), ProviderError> {
        let not_ended = |reason: String| ProviderError::NotEnded(reason);
        let docker = &self.engine.connected().await.map_err(ProviderError::not_ended)?.docker;
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

    /// Held while a sandbox's container is being created.
    pub(super) fn under_way(&self, id: &SandboxId) -> Arc<tokio::sync::Mutex<()>> {
        let mut creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(creating.entry(id.clone()).or_default())
    }

    /// The containers of a sandbox, those of a moment too.
    pub(super) async fn containers_of(&self, docker: &Docker, id: &SandboxId) -> Result<Vec<ContainerSummary>, Error> {
        let filters = labels::filter([(labels::DIRECTORY, &self.directory), (labels::SANDBOX, id.as_str())]);
        docker.list_containers(Some(ListContainersOptionsBuilder::default().all(true).filters(&filters).build())).await
    }
}

/// Asks Jupyter to end, then removes its container with everything in it, and waits until it is gone.
pub(super) async fn remove(docker: &Docker, container: &str, is_sandbox: bool) -> Result<(), Error> {
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
