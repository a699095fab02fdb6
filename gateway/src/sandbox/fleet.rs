//! All sandboxes of a gateway, and what holds whoever provides them: names, limits, readiness,
//! records, roll-back.

mod attach;
mod launch;
mod lifetimes;
mod sandbox;
mod sibling;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use secrecy::ExposeSecret;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use sandbox::Sandbox;

use super::instance::Instance;
use super::process::ProcessProvider;
use super::records::Records;
use super::token::MasterKey;
use super::{FleetError, Owner, Progress, ProviderError, Record, SandboxId, SandboxProvider, Status};

/// The variant that attaches a server instead of launching one.
const ATTACHED: &str = "jupyter-server";

/// How long the answer whether launches are possible waits for the sweep.
const SWEEP_WAIT: Duration = Duration::from_secs(1);
const ENDED_BY_OWNER: &str = "terminated by its owner";

/// How sandboxes are made and kept.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// Where records, workspaces and sandboxes' own directories are.
    pub data_dir: PathBuf,
    /// The provider that launches when a call names none.
    pub variant: String,
    /// How many sandboxes a principal may have at once.
    pub max_per_principal: usize,
    /// How long a sandbox may stay unused.
    pub idle_timeout: Duration,
    /// Where the Python environment is built, for all data directories.
    pub cache_dir: PathBuf,
    /// The Python it is made with; the one on the PATH without it.
    pub python: Option<PathBuf>,
}

/// What became of a launch.
pub struct Launched {
    /// The sandbox, which runs.
    pub sandbox: Arc<Sandbox>,
    /// It ran before, launched by the same request.
    pub existing: bool,
}

/// What became of a termination.
pub struct Terminated {
    /// The record as it is now.
    pub record: Record,
    /// It had ended before.
    pub already: bool,
    /// It was attached, and goes on running elsewhere.
    pub detached: bool,
    /// Where its files are kept.
    pub files: Option<String>,
}

type NameLock = Arc<tokio::sync::Mutex<()>>;

/// The sandboxes of a gateway.
pub struct Fleet {
    config: FleetConfig,
    records: Records,
    instance: Instance,
    key: MasterKey,
    providers: Vec<Arc<dyn SandboxProvider>>,
    live: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
    siblings: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
    /// Held from counting an owner's sandboxes until the next one is written down.
    intents: Mutex<()>,
    /// One launch or termination of a name at a time.
    names: Mutex<HashMap<(Owner, String), NameLock>>,
    /// True once what a dead gateway left is cleared away.
    swept: watch::Sender<bool>,
    stop: CancellationToken,
}

impl Fleet {
    /// Opens the data directory and answers at once; what a dead gateway left is swept, and what
    /// launches need is built, in the background.
    pub async fn open(config: FleetConfig) -> Result<Arc<Self>, FleetError> {
        let fleet = tokio::task::spawn_blocking(move || Self::opened(config));
        let fleet = Arc::new(fleet.await.map_err(|error| FleetError::Data(error.to_string()))??);
        tokio::spawn(Arc::clone(&fleet).sweep());
        let provider = fleet.provider(&fleet.config.variant)?;
        tokio::spawn(async move {
            if let Err(error) = provider.prepare(&Progress::default()).await {
                tracing::warn!(%error, "sandboxes can't be launched yet");
            }
        });
        tokio::spawn(lifetimes::watch(Arc::downgrade(&fleet)));
        Ok(fleet)
    }

    fn opened(config: FleetConfig) -> Result<Self, FleetError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir)?;
        // Jupyter runs elsewhere than the gateway was started, so its paths have to be whole.
        let config = FleetConfig { data_dir: config.data_dir.canonicalize()?, ..config };
        let instance = Instance::enter(&config.data_dir)?;
        Ok(Self {
            records: Records::open(&config.data_dir)?,
            key: MasterKey::open(&config.data_dir)?,
            providers: vec![Arc::new(ProcessProvider::new(&config, instance.id()))],
            instance,
            config,
            live: Mutex::default(),
            siblings: Mutex::default(),
            intents: Mutex::default(),
            names: Mutex::default(),
            swept: watch::Sender::new(false),
            stop: CancellationToken::new(),
        })
    }

    /// An owner's sandboxes, ended ones too, oldest first.
    pub fn list(&self, owner: &Owner) -> Vec<Record> {
        let records = self.records.of(owner, self.instance.id()).unwrap_or_else(|error| {
            tracing::error!(%error, "the records can't be read");
            Vec::new()
        });
        records.into_iter().map(|record| self.as_it_is(record)).collect()
    }

    /// An owner's running sandbox, by name or id; also one that a sibling looks after.
    pub fn find(&self, owner: &Owner, name: &str) -> Option<Arc<Sandbox>> {
        self.own(owner, name).or_else(|| self.sibling(owner, name))
    }

    fn own(&self, owner: &Owner, name: &str) -> Option<Arc<Sandbox>> {
        let live = self.live();
        let mut of_owner = live.values().filter(|sandbox| sandbox.owner() == owner);
        of_owner.find(|sandbox| sandbox.name() == name || sandbox.id().as_str() == name).cloned()
    }

    /// The newest record of a name or id, ended ones too.
    pub fn record(&self, owner: &Owner, name: &str) -> Option<Record> {
        self.records.find(owner, name, self.instance.id()).ok().flatten().map(|record| self.as_it_is(record))
    }

    /// Ends a sandbox, and waits until nothing of it is left. Ending it again is fine.
    pub async fn terminate(&self, owner: &Owner, name: &str) -> Result<Terminated, FleetError> {
        self.wait_until_swept().await;
        let known = self.record(owner, name).ok_or_else(|| FleetError::NotFound(name.to_owned()))?;
        let lock = self.name_lock(owner, &known.name);
        let _one_at_a_time = lock.lock().await;
        let (record, already) = if let Some(sandbox) = self.own(owner, name) {
            (self.end(&sandbox, Status::Terminated, ENDED_BY_OWNER).await?, false)
        } else {
            let record = self.record(owner, name).unwrap_or(known);
            let already = !record.status.is_live();
            (if already { record } else { self.end_left_over(record).await? }, already)
        };
        let (detached, files) = (!already && record.variant == ATTACHED, record.files.clone());
        Ok(Terminated { record, already, detached, files })
    }

    /// A planned stop: launches are refused, and every sandbox of this gateway ends.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.wait_until_swept().await;
        // A launch under way takes its sandbox down again before its lock is free.
        let locks: Vec<_> = self.names.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for lock in locks {
            drop(lock.lock().await);
        }
        let sandboxes: Vec<_> = self.live().values().cloned().collect();
        let ends = sandboxes.iter().map(|sandbox| self.end(sandbox, Status::Terminated, "the gateway was stopped"));
        for ended in futures_util::future::join_all(ends).await {
            if let Err(error) = ended {
                tracing::error!(%error, "a sandbox could not be ended; the next start does it");
            }
        }
        self.end_marked().await;
    }

    /// Ends what else this gateway started: an environment that is half built.
    async fn end_marked(&self) {
        for provider in &self.providers {
            for (id, _) in provider.list().await.into_iter().filter(|(_, instance)| instance == self.instance.id()) {
                if let Err(error) = provider.terminate(&id).await {
                    tracing::error!(%id, %error, "processes could not be ended; the next start does it");
                }
            }
        }
    }

    /// What callers may name as a variant.
    pub fn variants(&self) -> Vec<&'static str> {
        self.providers.iter().map(|provider| provider.variant()).chain([ATTACHED]).collect()
    }

    /// The variant of a launch that names none.
    pub fn default_variant(&self) -> &str {
        &self.config.variant
    }

    /// How many live sandboxes of this gateway there are in each status.
    pub fn count_by_status(&self) -> BTreeMap<&'static str, usize> {
        let mut counts: BTreeMap<_, _> =
            Status::ALL.into_iter().filter(|status| status.is_live()).map(|status| (status.as_str(), 0)).collect();
        for record in self.records.live().unwrap_or_default() {
            if record.instance == self.instance.id() {
                *counts.entry(record.status.as_str()).or_default() += 1;
            }
        }
        counts
    }

    /// The runs that wait in each kernel's queue.
    pub fn queue_lengths(&self) -> Vec<usize> {
        let sandboxes: Vec<_> = self.live().values().cloned().collect();
        sandboxes.iter().flat_map(|sandbox| sandbox.server().queue_lengths()).collect()
    }

    /// Whether sandboxes can be launched; the reason when not.
    pub async fn ready(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err("the gateway is stopping".to_owned());
        }
        if tokio::time::timeout(SWEEP_WAIT, self.wait_until_swept()).await.is_err() {
            return Err("what a dead gateway left is still being cleared away".to_owned());
        }
        self.provider(&self.config.variant).map_err(|error| error.to_string())?.ready()
    }

    /// The exact tokens of the live sandboxes, which no answer may show.
    pub fn secrets(&self) -> Vec<String> {
        let token = |sandbox: &Arc<Sandbox>| Some(sandbox.server().token()?.expose_secret().to_owned());
        let own: Vec<String> = self.live().values().filter_map(token).collect();
        own.into_iter().chain(self.siblings().values().filter_map(token)).collect()
    }

    fn live(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Sandbox>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name_lock(&self, owner: &Owner, name: &str) -> NameLock {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(names.entry((owner.clone(), name.to_owned())).or_default())
    }

    fn provider(&self, variant: &str) -> Result<Arc<dyn SandboxProvider>, FleetError> {
        let provider = self.providers.iter().find(|provider| provider.variant() == variant);
        provider.cloned().ok_or_else(|| {
            let known = self.variants().join(", ");
            FleetError::Provider(ProviderError::Unknown { variant: variant.to_owned(), known })
        })
    }

    async fn wait_until_swept(&self) {
        // The sender lives as long as the fleet, so this ends with the sweep.
        let _ = self.swept.subscribe().wait_for(|swept| *swept).await;
    }

    /// A record with what is known beyond it: activity, an end that nobody has written down yet.
    fn as_it_is(&self, record: Record) -> Record {
        if let Some(sandbox) = self.live().get(&record.id) {
            let now = sandbox.record();
            return match sandbox.lost().filter(|_| now.status == Status::Running) {
                None => now,
                Some(reason) => Record { status: Status::Lost, status_reason: Some(reason), ..now },
            };
        }
        if record.status.is_live() && !self.instance.is_alive(&record.instance) {
            let reason = Some("its gateway ended without stopping it".to_owned());
            return Record { status: Status::Lost, status_reason: reason, ..record };
        }
        record
    }

    /// Ends what a launch could not take down again.
    async fn end_left_over(&self, mut record: Record) -> Result<Record, FleetError> {
        if record.instance != self.instance.id() {
            return Err(FleetError::Elsewhere(record.name));
        }
        self.provider(&record.variant)?.terminate(&record.id).await?;
        record.status = Status::Terminated;
        record.status_reason = Some(ENDED_BY_OWNER.to_owned());
        self.records.put(&record)?;
        Ok(record)
    }

    /// Ends a sandbox of this gateway and writes down why.
    async fn end(&self, sandbox: &Arc<Sandbox>, status: Status, reason: &str) -> Result<Record, FleetError> {
        let terminating = sandbox.change(|record| record.status = Status::Terminating);
        self.records.put(&terminating)?;
        if terminating.variant != ATTACHED {
            self.provider(&terminating.variant)?.terminate(sandbox.id()).await?;
        }
        self.live().remove(sandbox.id());
        let ended = sandbox.change(|record| {
            record.status = status;
            record.status_reason = Some(reason.to_owned());
            record.url = None;
            record.last_activity_at = Timestamp::now();
        });
        self.records.put(&ended)?;
        tracing::info!(sandbox = %ended.id, status = status.as_str(), reason, "sandbox ended");
        Ok(ended)
    }
}
