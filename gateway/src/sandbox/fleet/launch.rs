//! A launch: intent, making, readiness; and the way back when it fails or is cancelled.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::super::{
    FleetError, LaunchRequest, Owner, Plan, Progress, ProviderError, Record, SandboxId, SandboxProvider, Status,
};
use super::attach::in_normal_form;
use super::{ATTACHED, Fleet, Launched, Sandbox};
use crate::jupyter::{JupyterError, Server};

/// Between two looks whether Jupyter answers.
const POLL: Duration = Duration::from_millis(25);
const LONGEST_NAME: usize = 100;

/// One launch: who wants what, who listens, and what takes it back.
pub(super) struct Asked {
    owner: Owner,
    pub(super) request: LaunchRequest,
    progress: Progress,
    cancel: CancellationToken,
}

impl Fleet {
    /// Launches a sandbox and waits until its Jupyter answers. A name that runs answers that sandbox
    /// when the request is the same. When the future is dropped, what was made is taken down again.
    pub async fn launch(
        self: &Arc<Self>,
        owner: &Owner,
        request: LaunchRequest,
        progress: &Progress,
    ) -> Result<Launched, FleetError> {
        check_name(&request.name)?;
        let request = in_normal_form(request)?;
        let cancel = self.stop.child_token();
        let _cancelled_when_dropped = cancel.clone().drop_guard();
        let asked = Asked { owner: owner.clone(), request, progress: progress.clone(), cancel };
        let fleet = Arc::clone(self);
        let launch = tokio::spawn(async move { fleet.launch_named(&asked).await });
        launch.await.unwrap_or_else(|error| Err(FleetError::Data(error.to_string())))
    }

    async fn launch_named(self: &Arc<Self>, asked: &Asked) -> Result<Launched, FleetError> {
        let Asked { owner, request, cancel, .. } = asked;
        let provider = self.provider_for(request)?;
        let lock = self.name_lock(owner, &request.name);
        let _one_at_a_time = tokio::select! {
            locked = self.prepared(provider.as_ref(), &asked.progress, &lock) => locked?,
            () = cancel.cancelled() => return Err(self.cancelled()),
        };
        let digest = self.key.digest(&request.canonical(self.default_variant()));
        if let Some(sandbox) = self.running(owner, &request.name).await? {
            if sandbox.record().digest != digest {
                return Err(FleetError::NameTaken(request.name.clone()));
            }
            sandbox.touch();
            return Ok(Launched { sandbox, existing: true });
        }
        let Some(provider) = provider else {
            return tokio::select! {
                attached = self.attach(asked, digest) => attached,
                () = cancel.cancelled() => Err(self.cancelled()),
            };
        };
        let record = self.intend(asked, digest, provider.variant())?;
        let made = tokio::select! {
            made = self.make(&record, asked, &provider) => made,
            () = cancel.cancelled() => Err(self.cancelled()),
        };
        // A stop that came meanwhile waits for this launch: nothing is handed out any more.
        let made = if self.stop.is_cancelled() { Err(FleetError::Stopping) } else { made };
        match made {
            Ok(sandbox) => Ok(Launched { sandbox, existing: false }),
            Err(error) => Err(self.roll_back(record, &provider, error).await),
        }
    }

    /// Who launches it; nobody does when a server is attached.
    fn provider_for(&self, request: &LaunchRequest) -> Result<Option<Arc<dyn SandboxProvider>>, FleetError> {
        let variant = request.variant.as_deref().unwrap_or(self.default_variant());
        if variant == ATTACHED {
            return Ok(None);
        }
        let provider = self.provider(variant)?;
        provider.accept(request)?;
        Ok(Some(provider))
    }

    /// Waits until launches are possible, then for the name's turn.
    async fn prepared<'a>(
        &self,
        provider: Option<&Arc<dyn SandboxProvider>>,
        progress: &Progress,
        lock: &'a tokio::sync::Mutex<()>,
    ) -> Result<tokio::sync::MutexGuard<'a, ()>, FleetError> {
        self.wait_until_swept().await;
        if let Some(provider) = provider {
            provider.prepare(progress).await?;
        }
        Ok(lock.lock().await)
    }

    fn cancelled(&self) -> FleetError {
        if self.stop.is_cancelled() {
            return FleetError::Stopping;
        }
        FleetError::Provider(ProviderError::Failed("the launch was cancelled".to_owned()))
    }

    /// The sandbox of that name if it runs; one whose processes are gone is cleared away first.
    async fn running(&self, owner: &Owner, name: &str) -> Result<Option<Arc<Sandbox>>, FleetError> {
        let Some(sandbox) = self.find(owner, name) else { return Ok(None) };
        if let Some(reason) = sandbox.lost() {
            self.end(&sandbox, Status::Lost, &reason).await?;
            return Ok(None);
        }
        Ok(Some(sandbox))
    }

    /// Checks the limit and writes the intent down; nothing exists yet.
    pub(super) fn intend(&self, asked: &Asked, digest: String, variant: &str) -> Result<Record, FleetError> {
        let Asked { owner, request, .. } = asked;
        if self.stop.is_cancelled() {
            return Err(FleetError::Stopping);
        }
        let _counted = self.intents.lock().unwrap_or_else(PoisonError::into_inner);
        let running: Vec<String> =
            self.list(owner).into_iter().filter(|record| record.status.is_live()).map(|record| record.name).collect();
        let limit = self.config.max_per_principal;
        if running.len() >= limit {
            return Err(FleetError::Limit { limit, names: running.join(", ") });
        }
        let now = Timestamp::now();
        let ttl = request.ttl_seconds.and_then(|seconds| i64::try_from(seconds).ok());
        let record = Record {
            id: SandboxId::random(),
            owner: owner.clone(),
            name: request.name.clone(),
            variant: variant.to_owned(),
            generation: 1,
            instance: self.instance.id().to_owned(),
            status: Status::Pending,
            status_reason: None,
            url: None,
            image: request.image.clone(),
            environment: request.environment.clone(),
            gpu: request.gpu.clone(),
            created_at: now,
            last_activity_at: now,
            expires_at: ttl.and_then(|seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok()),
            digest,
            files: (variant != ATTACHED).then(|| self.workspace(owner, &request.name).to_string_lossy().into_owned()),
        };
        match self.records.put(&record) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                Err(FleetError::Elsewhere(record.name))
            }
            written => written.map(|()| record).map_err(FleetError::from),
        }
    }

    async fn make(
        &self,
        record: &Record,
        asked: &Asked,
        provider: &Arc<dyn SandboxProvider>,
    ) -> Result<Arc<Sandbox>, FleetError> {
        let request = &asked.request;
        let idle = request.idle_timeout_seconds.map_or(self.config.idle_timeout, Duration::from_secs);
        let plan = Plan {
            id: record.id.clone(),
            instance: record.instance.clone(),
            base_url: format!("/sandboxes/{}/", record.id),
            token: self.key.token(record.id.as_str(), record.generation),
            workspace: self.workspace(&record.owner, &record.name),
            env: request.env.clone(),
            idle: Some(idle),
            expires_at: record.expires_at,
        };
        let mut record = record.clone();
        record.status = Status::Starting;
        self.records.put(&record)?;
        let mut missing = "it was still starting".to_owned();
        let ready = tokio::time::timeout(request.timeout, async {
            let endpoint = provider.launch(&plan, &asked.progress).await?;
            let server = Server::new(&endpoint.url, Some(plan.token.clone()))?;
            wait_until_ready(&server, provider.as_ref(), &record.id, &mut missing).await?;
            Ok::<_, FleetError>((endpoint, server))
        });
        let Ok(ready) = ready.await else {
            let seconds = request.timeout.as_secs();
            return Err(FleetError::NotReady { name: record.name, seconds, reason: missing });
        };
        let (endpoint, server) = ready?;
        record.url = Some(endpoint.url);
        record.status = Status::Running;
        record.last_activity_at = Timestamp::now();
        let sandbox = Sandbox::new(record, server, Some(Arc::clone(provider)), Some(idle));
        self.admit(sandbox)
    }

    /// From now on the sandbox can be found.
    pub(super) fn admit(&self, sandbox: Sandbox) -> Result<Arc<Sandbox>, FleetError> {
        let sandbox = Arc::new(sandbox);
        let record = sandbox.record();
        self.records.put(&record)?;
        self.live().insert(record.id.clone(), Arc::clone(&sandbox));
        tracing::info!(sandbox = %record.id, variant = record.variant, "sandbox runs");
        Ok(sandbox)
    }

    /// Takes down what was made and writes down why; the error that callers get is the first one.
    async fn roll_back(
        &self,
        mut record: Record,
        provider: &Arc<dyn SandboxProvider>,
        error: FleetError,
    ) -> FleetError {
        self.live().remove(&record.id);
        if let Err(left) = provider.terminate(&record.id).await {
            tracing::error!(sandbox = %record.id, error = %left, "a failed launch could not be taken down; the next start does it");
            return error;
        }
        record.status = Status::Failed;
        record.status_reason = Some(error.to_string());
        if let Err(unwritten) = self.records.put(&record) {
            tracing::error!(sandbox = %record.id, error = %unwritten, "the record of a failed launch can't be written");
        }
        error
    }

    /// Where a sandbox's files are, in this life and the next.
    fn workspace(&self, owner: &Owner, name: &str) -> PathBuf {
        let principal = if owner.tenant == owner.principal {
            owner.principal.clone()
        } else {
            format!("{}.{}", owner.tenant, owner.principal)
        };
        self.config.data_dir.join("workspaces").join(principal).join(name)
    }
}

/// Waits until Jupyter answers to its token.
async fn wait_until_ready(
    server: &Server,
    provider: &dyn SandboxProvider,
    id: &SandboxId,
    missing: &mut String,
) -> Result<(), FleetError> {
    loop {
        match server.status().await {
            Ok(_) => return Ok(()),
            Err(error @ JupyterError::Unauthorized { .. }) => {
                return Err(ProviderError::Failed(format!("another server answered on its port ({error})")).into());
            }
            Err(error) => *missing = error.to_string(),
        }
        if let Some(reason) = provider.ended(id) {
            return Err(ProviderError::Failed(reason).into());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A name is a folder's name as well, and `host:port` for an attached server.
fn check_name(name: &str) -> Result<(), FleetError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    if starts_well && name.len() <= LONGEST_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    Err(FleetError::BadName(name.chars().take(LONGEST_NAME).collect()))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_never_leaves_its_folder() {
        for name in ["main", "a.b-c_d", "127.0.0.1:8888", "[::1]:8888"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "a\\b", "-x", "a\0", "ä", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
