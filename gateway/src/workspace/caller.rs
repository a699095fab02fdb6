//! Who is calling: tenant, principal and workspace, with what this one call carries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Policy, Workspace, Workspaces, lock};
use crate::audit::{Action, Event};
use crate::sandbox::{Fleet, Owner, Progress, Sandbox, SandboxId};

/// What one call brings along besides its arguments.
#[derive(Clone, Default)]
pub struct Call {
    /// Cancelled when the client takes the call back.
    pub cancel: CancellationToken,
    /// Where news of a long call goes; silent when the client asked for none.
    pub progress: Progress,
    /// The request's JSON-RPC id.
    pub request: Option<String>,
    /// The tool that was called.
    pub tool: &'static str,
}

/// The caller of a tool. It travels through every call; nothing else says who is asking.
pub struct Caller {
    /// Tenant and principal, from the credential.
    pub owner: Owner,
    /// What this call brought along.
    pub call: Call,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) workspace: Arc<Workspace>,
    name: String,
    notes: Mutex<Vec<String>>,
    /// The sandbox that this call went to, by id and name.
    went_to: Mutex<Option<(SandboxId, String)>>,
}

impl Caller {
    /// The caller `owner` in its workspace named `workspace`.
    pub fn new(workspaces: &Arc<Workspaces>, owner: Owner, workspace: &str, call: Call) -> Self {
        Self {
            workspace: workspaces.workspace(&owner, workspace),
            workspaces: Arc::clone(workspaces),
            name: workspace.to_owned(),
            owner,
            call,
            notes: Mutex::default(),
            went_to: Mutex::default(),
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

    /// The names of this principal's open notebooks, by sandbox.
    pub fn notebooks_by_sandbox(&self) -> HashMap<String, Vec<String>> {
        self.workspaces.notebooks(&self.owner)
    }

    /// Saves where this workspace's pointers are now, so that they are there again after a restart.
    pub fn save(&self) {
        self.workspaces.save((&self.owner, &self.name), &self.workspace);
    }

    /// This call goes to that sandbox, which is being used by it.
    pub(super) fn goes_to(&self, sandbox: &Sandbox) {
        sandbox.touch();
        *lock(&self.went_to) = Some((sandbox.id().clone(), sandbox.name().to_owned()));
    }

    /// Tells the audit trail of something that this call did.
    pub fn audit(&self, action: Action, outcome: &str, took: Duration) {
        self.audit_of(None, (action, outcome, took));
    }

    /// The same of a sandbox that is only asked for by that name.
    pub(super) fn audit_of(&self, asked: Option<&str>, (action, outcome, took): (Action, &str, Duration)) {
        let went_to = lock(&self.went_to).clone();
        self.fleet().audit().record(&Event {
            event: action,
            tenant: &self.owner.tenant,
            principal: &self.owner.principal,
            workspace: Some(&self.name),
            request: self.call.request.as_deref(),
            tool: Some(self.call.tool),
            sandbox: went_to.as_ref().map(|(id, _)| id.as_str()),
            name: went_to.as_ref().map(|(_, name)| name.as_str()).or(asked),
            outcome,
            cause: None,
            seconds: took.as_secs_f64(),
        });
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
