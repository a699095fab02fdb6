//! Who is calling: tenant, principal and workspace, with what this one call carries.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::{Policy, Workspace, Workspaces, lock};
use crate::sandbox::{Fleet, Owner, Progress};

/// What one call brings along besides its arguments.
#[derive(Clone, Default)]
pub struct Call {
    /// Cancelled when the client takes the call back.
    pub cancel: CancellationToken,
    /// Where news of a long call goes; silent when the client asked for none.
    pub progress: Progress,
}

/// The caller of a tool. It travels through every call; nothing else says who is asking.
pub struct Caller {
    /// Tenant and principal, from the credential.
    pub owner: Owner,
    /// What this call brought along.
    pub call: Call,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) workspace: Arc<Workspace>,
    notes: Mutex<Vec<String>>,
}

impl Caller {
    /// The caller `owner` in its workspace named `workspace`.
    pub fn new(workspaces: &Arc<Workspaces>, owner: Owner, workspace: &str, call: Call) -> Self {
        Self {
            workspace: workspaces.workspace(&owner, workspace),
            workspaces: Arc::clone(workspaces),
            owner,
            call,
            notes: Mutex::default(),
        }
    }

    /// The sandboxes of everyone; ask it with this caller's `owner`.
    pub fn fleet(&self) -> &Arc<Fleet> {
        self.workspaces.fleet()
    }

    /// What the operator decided about calls.
    pub fn policy(&self) -> &Policy {
        self.workspaces.policy()
    }

    /// The names of this principal's notebooks that are open in that sandbox.
    pub fn notebooks_in(&self, sandbox: &str) -> Vec<String> {
        self.workspaces.notebooks_in(&self.owner, sandbox)
    }

    /// Something that was decided on the way and that the answer has to say.
    pub fn note(&self, note: impl Into<String>) {
        lock(&self.notes).push(note.into());
    }

    /// The notes so far; they are said once.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.notes))
    }
}
