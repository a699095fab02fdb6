//! What one caller has: an active sandbox, open notebooks and a current notebook.
//!
//! Sandboxes belong to the principal; these pointers belong to the workspace, so two of one
//! person's never move each other's. Nothing here is process-global.

mod binding;
mod caller;
mod cell_ids;
mod document;
mod execution;
mod failure;
mod kernels;
mod notebooks;
mod pointers;
mod report;
mod sandboxes;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use caller::{Call, Caller};
pub use document::{Document, NotebookDocument};
pub use execution::{Options, Where};
pub use failure::jupyter_failure;
pub use notebooks::{Closed, OpenNotebook, Opened, Opening, Target};

use document::Documents;
use pointers::{Pointers, Saved};
use secrecy::SecretString;

use crate::database::Database;
use crate::sandbox::{Fleet, Owner, SandboxId};

/// What the operator decided about calls.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The time limit of a run that asks for 0 seconds.
    pub execution_timeout: Duration,
    /// The longest time limit that a call may ask for.
    pub execution_ceiling: Duration,
    /// Whether a call that needs a sandbox launches one when the caller has none.
    pub auto_launch: bool,
    /// The server that runs already and is the default sandbox, where the operator named one.
    pub default_server: Option<DefaultServer>,
}

/// A Jupyter server that the operator named as the default sandbox.
#[derive(Clone, Debug)]
pub struct DefaultServer {
    /// Its name as a sandbox, `host:port`.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Its token.
    pub token: Option<SecretString>,
}

/// Every workspace of every principal, and what they share.
pub struct Workspaces {
    fleet: Arc<Fleet>,
    documents: Documents,
    policy: Policy,
    pointers: Pointers,
    open: Mutex<HashMap<(Owner, String), Arc<Workspace>>>,
}

/// Begins the name of the workspace of a process that serves one client on its standard streams.
const PROCESS: &str = "process:";
/// How often it is noted that a workspace is in use, at least.
const NOTE_EVERY: Duration = Duration::from_secs(3600);
/// So many workspaces may be in memory before those that nobody is using are dropped; they are saved.
const IN_MEMORY: usize = 1000;

impl Workspaces {
    /// The workspaces that are saved in `database`, in front of `fleet`.
    ///
    /// # Errors
    /// When the database can't be used.
    pub fn open(fleet: Arc<Fleet>, policy: Policy, database: Arc<Database>) -> rusqlite::Result<Self> {
        cell_ids::forget_old(&database)?;
        let documents = Documents::new(Arc::clone(&database));
        let pointers = Pointers::open(database)?;
        for instance in pointers.instances(PROCESS)?.iter().filter(|instance| !fleet.is_instance_alive(instance)) {
            pointers.forget_named(&format!("{PROCESS}{instance}"))?;
        }
        Ok(Self { fleet, documents, policy, pointers, open: Mutex::default() })
    }

    /// The sandboxes behind all workspaces.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// What the operator decided about calls.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The name of the workspace that is this process's own.
    pub fn of_process(&self) -> String {
        format!("{PROCESS}{}", self.fleet.instance())
    }

    /// The workspace of that name: as it was saved, or a new one.
    fn workspace(&self, owner: &Owner, name: &str) -> Arc<Workspace> {
        let saved = self.pointers.load((owner, name)).unwrap_or_default();
        let mut open = lock(&self.open);
        if open.len() >= IN_MEMORY {
            open.retain(|_, workspace| Arc::strong_count(workspace) > 1);
        }
        match open.entry((owner.clone(), name.to_owned())) {
            Entry::Occupied(entry) => {
                let workspace = entry.get();
                // Another gateway may have moved its pointers.
                if let Some(saved) = saved {
                    workspace.follow(saved);
                }
                Arc::clone(workspace)
            }
            Entry::Vacant(entry) => Arc::clone(entry.insert(Arc::new(Workspace::restored(saved)))),
        }
    }

    /// Saves a workspace's pointers if they changed. It fails no call: what can't be saved now is with the next.
    fn save(&self, (owner, name): (&Owner, &str), workspace: &Workspace) {
        let mut saved = lock(&workspace.saved);
        let state = workspace.state().to_text();
        let mut noted_at = lock(&workspace.noted_at);
        if *saved == state && noted_at.elapsed() < NOTE_EVERY {
            return;
        }
        *noted_at = Instant::now();
        match self.pointers.save((owner, name), &state) {
            Ok(()) => *saved = state,
            Err(error) => tracing::error!(%error, "the pointers of a workspace can't be saved"),
        }
    }

    /// Ends a workspace that nobody can come back to, with the kernels that it had aside.
    pub async fn close(&self, owner: &Owner, name: &str) {
        let workspace = self.workspace(owner, name);
        let scratch = workspace.state().scratch.clone();
        lock(&self.open).remove(&(owner.clone(), name.to_owned()));
        if let Err(error) = self.pointers.forget((owner, name)) {
            tracing::error!(%error, "a workspace can't be forgotten");
        }
        for (sandbox, kernel) in scratch {
            let Some(sandbox) = self.fleet.find(owner, sandbox.as_str()) else { continue };
            if let Err(error) = sandbox.server().shutdown_kernel(&kernel).await {
                tracing::debug!(%error, "the kernel of a workspace that ended can't be shut down");
            }
            sandbox.server().forget_kernel(&kernel);
        }
    }

    /// How many workspaces have the notebook's kernel in use.
    fn users_of_kernel(&self, kernel: &str) -> usize {
        let saved = self.pointers.users_of_kernel(kernel).unwrap_or_default();
        let open = lock(&self.open);
        let in_memory = open.values().filter(|workspace| workspace.uses_kernel(kernel)).count();
        in_memory + saved.iter().filter(|workspace| !open.contains_key(workspace)).count()
    }

    /// The names of an owner's notebooks that any of its workspaces has open, by sandbox.
    pub fn notebooks(&self, owner: &Owner) -> HashMap<String, Vec<String>> {
        self.pointers.notebooks(owner).unwrap_or_default()
    }
}

/// One workspace's pointers.
struct Workspace {
    state: Mutex<State>,
    /// As they were last saved.
    saved: Mutex<String>,
    /// When it was last noted that it is in use.
    noted_at: Mutex<Instant>,
}

#[derive(Default)]
struct State {
    active: Option<SandboxId>,
    /// Set when the caller ended the active sandbox: nothing is picked or launched for it until it says so.
    ended: bool,
    notebooks: Vec<Arc<OpenNotebook>>,
    current: Option<String>,
    scratch: BTreeMap<SandboxId, String>,
}

impl Workspace {
    fn restored(saved: Option<String>) -> Self {
        let saved = saved.unwrap_or_else(|| State::default().to_text());
        let state = pointers::parse(&saved).map(State::from).unwrap_or_default();
        Self { state: Mutex::new(state), saved: Mutex::new(saved), noted_at: Mutex::new(Instant::now()) }
    }

    /// Takes what another gateway saved, unless a call here has moved pointers that are not saved yet.
    fn follow(&self, saved: String) {
        let mut known = lock(&self.saved);
        let mut state = self.state();
        if *known != saved
            && *known == state.to_text()
            && let Some(theirs) = pointers::parse(&saved)
        {
            *state = State::from(theirs);
            *known = saved;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn uses_kernel(&self, kernel: &str) -> bool {
        let state = self.state();
        state.scratch.values().any(|id| id == kernel)
            || state.notebooks.iter().any(|notebook| notebook.kernel_id().as_deref() == Some(kernel))
    }
}

impl State {
    fn to_text(&self) -> String {
        let saved = Saved {
            active: self.active.clone(),
            ended: self.ended,
            notebooks: self.notebooks.iter().map(|notebook| notebook.to_saved()).collect(),
            current: self.current.clone(),
            scratch: self.scratch.clone(),
        };
        serde_json::to_string(&saved).unwrap_or_default()
    }
}

impl From<Saved> for State {
    fn from(saved: Saved) -> Self {
        Self {
            active: saved.active,
            ended: saved.ended,
            notebooks: saved.notebooks.into_iter().filter_map(OpenNotebook::from_saved).map(Arc::new).collect(),
            current: saved.current,
            scratch: saved.scratch,
        }
    }
}

/// A lock whose holder never panics while it holds it: what a poisoned one guards is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
