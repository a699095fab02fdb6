//! A launch: intent, making, readiness; and the way back when it fails or is cancelled.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::super::cause::Cause;
use super::super::{
    FleetError, LaunchRequest, Owner, Plan, Progress, ProviderError, Record, SandboxId, SandboxProvider, Status,
    check_name,
};
use super::attach::in_normal_form;
use super::files::{delete_if_ephemeral, take_away_unused};
use super::intent::{Asked, Intent};
use super::{ATTACHED, Fleet, Launched, Sandbox};
use crate::jupyter::{JupyterError, Server};
use crate::points;

/// Between two looks whether Jupyter answers.
const POLL: Duration = Duration::from_millis(25);

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
        self.config.lifetimes.check(&request)?;
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
            locked = self.prepared(provider.as_ref(), asked, &lock) => locked?,
            () = cancel.cancelled() => return Err(self.cancelled()),
        };
        if let Some(sandbox) = self.running(owner, &request.name).await? {
            let record = sandbox.record();
            if self.digest(request, &record.key_id) != Some(record.digest) {
                return Err(FleetError::NameTaken(request.name.clone()));
            }
            sandbox.touch();
            return Ok(Launched { sandbox, existing: true, brought_back: false });
        }
        let Some(provider) = provider else {
            return tokio::select! {
                attached = self.attach(asked) => attached,
                () = cancel.cancelled() => Err(self.cancelled()),
            };
        };
        let _turn = tokio::select! {
            turn = self.queue.turn(&asked.progress) => turn,
            () = cancel.cancelled() => return Err(self.cancelled()),
        };
        let record = self.intend(asked, &Intent { variant: provider.variant(), secret: None })?;
        points::reached("launch.intended").await;
        // Asked once the intent is written down: nothing deletes them any more.
        let had_files = provider.store().has(owner, &request.name).await;
        let made = tokio::select! {
            made = self.make(&record, asked, &provider) => made,
            () = cancel.cancelled() => Err(self.cancelled()),
        };
        // A stop that came meanwhile waits for this launch: nothing is handed out any more.
        let made = if self.stop.is_cancelled() { Err(FleetError::Stopping) } else { made };
        match made {
            Ok(sandbox) => Ok(Launched { sandbox, existing: false, brought_back: had_files.unwrap_or_default() }),
            Err(error) => Err(self.roll_back(record, &provider, error).await),
        }
    }

    /// What a request is remembered by, under that master key.
    fn digest(&self, request: &LaunchRequest, key: &str) -> Option<String> {
        Some(self.keys.key(key)?.digest(&request.canonical(self.default_variant())))
    }

    /// Who launches it; nobody does when a server is attached.
    fn provider_for(&self, request: &LaunchRequest) -> Result<Option<Arc<dyn SandboxProvider>>, FleetError> {
        let variant = request.variant.as_deref().unwrap_or(self.default_variant());
        if variant == ATTACHED {
            return Ok(None);
        }
        // Others may be there only to look after what an earlier gateway launched.
        if !self.variants().contains(&variant) {
            return Err(self.unknown(variant));
        }
        let provider = self.provider(variant)?;
        provider.accept(request)?;
        Ok(Some(provider))
    }

    /// Waits until launches are possible, then for the name's turn.
    async fn prepared<'a>(
        &self,
        provider: Option<&Arc<dyn SandboxProvider>>,
        asked: &Asked,
        lock: &'a tokio::sync::Mutex<()>,
    ) -> Result<tokio::sync::MutexGuard<'a, ()>, FleetError> {
        self.wait_until_settled().await;
        if let Some(provider) = provider {
            provider.prepare(&asked.request, &asked.progress).await?;
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
        let Some(sandbox) = self.find(owner, name) else { return self.left(owner, name).await };
        if let Some(reason) = sandbox.lost() {
            self.end(&sandbox, Cause::Lost(reason), None).await?;
            return Ok(None);
        }
        // The name's turn is this launch's, so nobody is ending it: an earlier end failed.
        if sandbox.record().status == Status::Terminating {
            self.end(&sandbox, Cause::Owner, None).await?;
            return Ok(None);
        }
        Ok(Some(sandbox))
    }

    /// What there is of that name beside what runs: an earlier launch that could not be taken down again, or a dead gateway's
    /// sandbox that was looked at once. The name's turn is this launch's.
    async fn left(&self, owner: &Owner, name: &str) -> Result<Option<Arc<Sandbox>>, FleetError> {
        let left = self.records.find(owner, name, self.instance.id())?;
        let is_left = |record: &Record| record.status.is_live() && record.instance == self.instance.id();
        let Some(left) = left.filter(is_left) else { return Ok(None) };
        let cause = match Cause::wished(&left) {
            Some(cause) => cause,
            None => match self.second_look(&left).await {
                Some(cause) => cause,
                None => return self.own(owner, name).map(Some).ok_or_else(|| self.left_as_it_is(&left)),
            },
        };
        self.end_left_over(left, cause).await?;
        Ok(None)
    }

    async fn make(
        &self,
        record: &Record,
        asked: &Asked,
        provider: &Arc<dyn SandboxProvider>,
    ) -> Result<Arc<Sandbox>, FleetError> {
        let request = &asked.request;
        let plan = Plan {
            id: record.id.clone(),
            instance: record.instance.clone(),
            record: serde_json::json!(record).to_string(),
            generation: record.generation,
            base_url: format!("/sandboxes/{}/", record.id),
            token: self.token(record).ok_or_else(|| FleetError::Data("the master key is gone".to_owned()))?,
            owner: record.owner.clone(),
            request: request.clone(),
            idle: record.idle_seconds.map(Duration::from_secs),
            expires_at: record.expires_at,
        };
        let mut record = record.clone();
        record.status = Status::Starting;
        self.records.put(&record)?;
        points::reached("launch.starting").await;
        let mut missing = "it was still starting".to_owned();
        let ready = tokio::time::timeout(request.timeout, async {
            let endpoint = provider.launch(&plan, &asked.progress).await?;
            points::reached("launch.started").await;
            let server = Server::of_sandbox(&endpoint.url, plan.token.clone())?;
            wait_until_ready(&server, provider.as_ref(), &record.id, &mut missing).await?;
            Ok::<_, FleetError>((endpoint, server))
        });
        let Ok(ready) = ready.await else {
            let (seconds, last) = (request.timeout.as_secs(), provider.last_words(&record.id).await);
            let reason = if last.is_empty() { missing } else { format!("{missing}; it last said: {last}") };
            return Err(FleetError::NotReady { name: record.name, seconds, reason });
        };
        let (endpoint, server) = ready?;
        points::reached("launch.ready").await;
        record.url = Some(endpoint.url);
        record.backend = endpoint.backend;
        record.image = endpoint.image;
        record.status = Status::Running;
        record.last_activity_at = Timestamp::now();
        let sandbox = self.admit(Sandbox::new(record, server, Some(Arc::clone(provider))))?;
        points::reached("launch.recorded").await;
        Ok(sandbox)
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
            tracing::error!(sandbox = %record.id, error = %left, "a failed launch could not be taken down yet");
            if let Err(error) = self.records.wish(&record.id, Status::Failed, &error.to_string()) {
                tracing::error!(sandbox = %record.id, %error, "a wish can't be written; the next start ends it");
            }
            return error;
        }
        take_away_unused(&mut record, provider.store().as_ref()).await;
        delete_if_ephemeral(&mut record, provider.store().as_ref()).await;
        record.status = Status::Failed;
        record.status_reason = Some(error.to_string());
        self.write(&record);
        error
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
