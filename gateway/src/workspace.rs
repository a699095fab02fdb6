//! What one caller has: an active sandbox, open notebooks and a current notebook.
//!
//! Sandboxes belong to the principal; these pointers belong to the workspace, so two of one
//! person's never move each other's. Nothing here is process-global.

mod caller;
mod document;
mod execution;
mod failure;
mod kernels;
mod notebooks;
mod report;
mod sandboxes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use caller::{Call, Caller};
pub use document::{Document, NotebookDocument};
pub use execution::{Options, Where};
pub use failure::jupyter_failure;
pub use notebooks::{Closed, OpenNotebook, Opened, Opening, Target};

use document::Documents;

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
    /// Whether callers may attach Jupyter servers by address.
    pub attach: bool,
}

/// Every workspace of every principal, and what they share.
pub struct Workspaces {
    fleet: Arc<Fleet>,
    documents: Documents,
    policy: Policy,
    open: Mutex<HashMap<(Owner, String), Arc<Workspace>>>,
}

impl Workspaces {
    /// No workspaces yet, in front of `fleet`.
    pub fn new(fleet: Arc<Fleet>, policy: Policy) -> Self {
        Self { fleet, documents: Documents::default(), policy, open: Mutex::default() }
    }

    /// The sandboxes behind all workspaces.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// What the operator decided about calls.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The workspace of that name, made when it isn't there.
    fn workspace(&self, owner: &Owner, name: &str) -> Arc<Workspace> {
        let key = (owner.clone(), name.to_owned());
        Arc::clone(lock(&self.open).entry(key).or_default())
    }

    /// How many workspaces have the notebook's kernel in use.
    fn users_of_kernel(&self, kernel: &str) -> usize {
        let workspaces: Vec<_> = lock(&self.open).values().cloned().collect();
        workspaces.iter().filter(|workspace| workspace.uses_kernel(kernel)).count()
    }

    /// The names of the notebooks that any workspace of `owner` has open in that sandbox.
    pub fn notebooks_in(&self, owner: &Owner, sandbox: &str) -> Vec<String> {
        let open = lock(&self.open);
        let mut names: Vec<String> = open
            .iter()
            .filter(|((of, _), _)| of == owner)
            .flat_map(|(_, workspace)| workspace.notebooks_in(sandbox))
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// One workspace's pointers.
#[derive(Default)]
struct Workspace {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: Option<SandboxId>,
    /// Set when the caller ended the active sandbox: nothing is picked or launched for it until it says so.
    ended: bool,
    notebooks: Vec<Arc<OpenNotebook>>,
    current: Option<String>,
    scratch: HashMap<SandboxId, String>,
}

impl Workspace {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn uses_kernel(&self, kernel: &str) -> bool {
        let state = self.state();
        state.scratch.values().any(|id| id == kernel)
            || state.notebooks.iter().any(|notebook| notebook.kernel_id().as_deref() == Some(kernel))
    }

    fn notebooks_in(&self, sandbox: &str) -> Vec<String> {
        let state = self.state();
        state.notebooks.iter().filter(|n| n.sandbox == sandbox).map(|n| n.name.clone()).collect()
    }
}

/// A lock whose holder never panics while it holds it: what a poisoned one guards is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
