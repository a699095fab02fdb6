//! All sandboxes of a gateway, and what holds whoever provides them: names, limits, readiness,
//! records, roll-back.

mod attach;
mod end;
mod files;
mod intent;
mod launch;
mod lifetimes;
mod queue;
mod sandbox;
mod sibling;
mod takeover;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use files::KeptFiles;
pub(super) use files::{delete_if_ephemeral, kept_files, prune};
pub use lifetimes::Lifetimes;
pub use sandbox::Sandbox;

use super::attachable::Attachable;
use super::docker::{DockerConfig, DockerProvider};
use super::instance::Instance;
use super::keys::KeyRing;
use super::kubernetes::{KubernetesConfig, KubernetesProvider};
use super::process::ProcessProvider;
use super::records::{Capacity, Records};
use super::{
    FleetError, LaunchRequest, Owner, Profiles, Progress, ProviderError, Record, SandboxId, SandboxProvider, Status,
};
use crate::audit::Audit;
use crate::database::Database;
use queue::Queue;

/// What sandboxes can be launched as.
const VARIANTS: [&str; 3] = ["process", "docker", "kubernetes"];

/// The variant that attaches a server instead of launching one.
pub const ATTACHED: &str = "jupyter-server";

/// How long the answer whether launches are possible waits for what dead gateways left.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// Between two tries to make ready what launches need.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// How sandboxes are made and kept.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// Where records, workspaces and sandboxes' own directories are.
    pub data_dir: PathBuf,
    /// The master keys; a file in `data_dir` without it.
    pub master_key_file: Option<PathBuf>,
    /// The provider that launches when a call names none.
    pub variant: String,
    /// How many sandboxes there may be at once.
    pub capacity: Capacity,
    /// How many are launched at the same time; others wait for their turn.
    pub launches_at_once: usize,
    /// How long sandboxes live.
    pub lifetimes: Lifetimes,
    /// Which servers callers may attach.
    pub attachable: Attachable,
    /// Whether sandboxes go on running when the gateway is told to stop, for its next start.
    pub keep_on_stop: bool,
    /// Whether a sandbox's files are deleted when it ends.
    pub ephemeral: bool,
    /// How long the files of an ended sandbox are kept after they were last used; without it until they are pruned.
    pub retention: Option<Duration>,
    /// Where the Python environment is built, for all data directories.
    pub cache_dir: PathBuf,
    /// The Python it is made with; the one on the PATH without it.
    pub python: Option<PathBuf>,
    /// What callers may choose as `environment` and `image`.
    pub profiles: Arc<Profiles>,
    /// The Docker Engine, and what images are built on.
    pub docker: DockerConfig,
    /// Where pods are, and whose they are.
    pub kubernetes: KubernetesConfig,
}

/// What became of a launch.
pub struct Launched {
    /// The sandbox, which runs.
    pub sandbox: Arc<Sandbox>,
    /// It ran before, launched by the same request.
    pub existing: bool,
    /// The files of an earlier sandbox of that name are there again.
    pub brought_back: bool,
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

/// The providers that a data directory needs: the one that launches, and those of sandboxes that live still.
pub(super) fn providers(
    config: &FleetConfig,
    records: &Records,
    instance: &str,
) -> Result<Vec<Arc<dyn SandboxProvider>>, FleetError> {
    let mut needed: BTreeSet<String> = records.live()?.into_iter().map(|record| record.variant).collect();
    needed.insert(config.variant.clone());
    let directory = records.directory()?;
    let provider = |variant: &&str| -> Arc<dyn SandboxProvider> {
        match *variant {
            "docker" => Arc::new(DockerProvider::new(config, &directory)),
            "kubernetes" => Arc::new(KubernetesProvider::new(config, &directory)),
            _ => Arc::new(ProcessProvider::new(config, instance)),
        }
    };
    Ok(VARIANTS.iter().filter(|variant| needed.contains(**variant)).map(provider).collect())
}

impl FleetConfig {
    /// Refuses what can't work, before anything is opened.
    ///
    /// # Errors
    /// When there is no such variant.
    pub fn check(&self) -> Result<(), FleetError> {
        if VARIANTS.contains(&self.variant.as_str()) {
            return Ok(());
        }
        let known = VARIANTS.join(", ");
        Err(ProviderError::Unknown { variant: self.variant.clone(), known }.into())
    }
}

/// Makes ready what launches need, however long that takes: what is missing may come.
async fn prepare(provider: Arc<dyn SandboxProvider>, stop: CancellationToken) {
    let mut pause = FIRST_PAUSE;
    while let Err(error) = provider.prepare(&LaunchRequest::default(), &Progress::default()).await {
        tracing::warn!(%error, "sandboxes can't be launched yet");
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (2 * pause).min(LONGEST_PAUSE),
            () = stop.cancelled() => return,
        }
    }
}

type NameLock = Arc<tokio::sync::Mutex<()>>;

/// The sandboxes of a gateway.
pub struct Fleet {
    config: FleetConfig,
    records: Records,
    audit: Arc<Audit>,
    instance: Instance,
    keys: KeyRing,
    providers: Vec<Arc<dyn SandboxProvider>>,
    live: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
    siblings: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
    /// Ends that the records don't tell of yet, since they could not be written.
    unwritten: Mutex<Vec<Record>>,
    queue: Queue,
    /// One launch or termination of a name at a time.
    names: Mutex<HashMap<(Owner, String), NameLock>>,
    looked_at: Mutex<HashSet<String>>,
    /// Whose lifetimes are being looked at.
    looking: Mutex<HashSet<SandboxId>>,
    /// What the first look found of sandboxes that don't go on.
    found: Mutex<HashMap<SandboxId, (Status, String)>>,
    untold: Mutex<takeover::Unknown>,
    /// True once it is decided what becomes of everything that dead gateways left.
    settled: watch::Sender<bool>,
    stop: CancellationToken,
}

impl Fleet {
    /// Opens the data directory and goes on with the sandboxes that dead gateways left running; what else
    /// they left is cleared away, and what launches need is built, in the background.
    pub async fn open(
        config: FleetConfig,
        database: Arc<Database>,
        audit: Arc<Audit>,
    ) -> Result<Arc<Self>, FleetError> {
        let fleet = tokio::task::spawn_blocking(move || Self::opened(config, database, audit));
        let fleet = Arc::new(fleet.await.map_err(|error| FleetError::Data(error.to_string()))??);
        let provider = fleet.provider(&fleet.config.variant)?;
        provider.begin().await;
        let left = fleet.take_over().await;
        tokio::spawn(Arc::clone(&fleet).settle(left));
        tokio::spawn(prepare(provider, fleet.stop.clone()));
        tokio::spawn(lifetimes::watch(Arc::downgrade(&fleet)));
        tokio::spawn(files::keep_retention(Arc::downgrade(&fleet)));
        Ok(fleet)
    }

    fn opened(config: FleetConfig, database: Arc<Database>, audit: Arc<Audit>) -> Result<Self, FleetError> {
        // Jupyter runs elsewhere than the gateway was started, so its paths have to be whole.
        let config = FleetConfig { data_dir: config.data_dir.canonicalize()?, ..config };
        let instance = Instance::enter(&config.data_dir)?;
        let records = Records::new(database);
        records.forget_old()?;
        let keys = KeyRing::open(&config.data_dir, config.master_key_file.as_deref())?;
        if records.live()?.iter().any(|record| keys.key(&record.key_id).is_none()) {
            tracing::error!("sandboxes live whose master key is not in the key ring: they can't be used, and end");
        }
        Ok(Self {
            providers: providers(&config, &records, instance.id())?,
            records,
            audit,
            keys,
            instance,
            queue: Queue::new(config.launches_at_once),
            config,
            live: Mutex::default(),
            siblings: Mutex::default(),
            unwritten: Mutex::default(),
            names: Mutex::default(),
            looked_at: Mutex::default(),
            looking: Mutex::default(),
            found: Mutex::default(),
            untold: Mutex::default(),
            settled: watch::Sender::new(false),
            stop: CancellationToken::new(),
        })
    }

    /// This gateway among those on the data directory.
    pub fn instance(&self) -> &str {
        self.instance.id()
    }

    /// Whether a gateway on the data directory lives.
    pub fn is_instance_alive(&self, instance: &str) -> bool {
        self.instance.is_alive(instance)
    }

    /// What is done is told here.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// An owner's sandboxes, oldest first: those that live, then those that ended.
    pub fn list(&self, owner: &Owner) -> Vec<Record> {
        let records = self.records.of(owner, self.instance.id()).unwrap_or_else(|error| {
            tracing::error!(%error, "the records can't be read");
            Vec::new()
        });
        let mut records: Vec<Record> = records.into_iter().map(|record| self.as_it_is(record)).collect();
        records.sort_by_key(|record| !record.status.is_live());
        records
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

    /// What callers may name as a variant.
    pub fn variants(&self) -> Vec<&'static str> {
        VARIANTS.into_iter().filter(|variant| *variant == self.config.variant).chain([ATTACHED]).collect()
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
        if tokio::time::timeout(SETTLE_WAIT, self.wait_until_settled()).await.is_err() {
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
        provider.cloned().ok_or_else(|| self.unknown(variant))
    }

    fn unknown(&self, variant: &str) -> FleetError {
        let known = self.variants().join(", ");
        FleetError::Provider(ProviderError::Unknown { variant: variant.to_owned(), known })
    }

    /// Where the files of a name are, in this life of its sandbox and the next.
    fn place(&self, variant: &str, owner: &Owner, name: &str) -> Option<String> {
        Some(self.provider(variant).ok()?.store().place(owner, name))
    }

    /// Whether a provider keeps files beyond the end of their sandbox.
    fn keeps_files(&self, variant: &str) -> bool {
        self.provider(variant).is_ok_and(|provider| provider.store().outlives_sandboxes())
    }

    async fn wait_until_settled(&self) {
        // The sender lives as long as the fleet, so this ends.
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    /// The token of a sandbox; none when its key is no longer there.
    fn token(&self, record: &Record) -> Option<SecretString> {
        Some(self.keys.key(&record.key_id)?.token(record.id.as_str(), record.generation))
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
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = unwritten.iter().find(|ended| ended.id == record.id) {
            return ended.clone();
        }
        // Looked after here, alive on record, and not among those that run: its end is not written down yet.
        let found = self.found().get(&record.id).cloned();
        match found.filter(|_| record.status.is_live()) {
            Some((status, reason)) => Record { status, status_reason: Some(reason), ..record },
            None => record,
        }
    }
}
