//! Which sandbox a call goes to.

use std::sync::Arc;
use std::time::Instant;

use super::Caller;
use super::failure::gone;
use crate::answer::{Code, Failure};
use crate::audit::Action;
use crate::sandbox::{ATTACHED, LaunchRequest, Launched, Sandbox, Status, Terminated};

/// The name of the sandbox that is launched for a caller who has none.
const DEFAULT_SANDBOX: &str = "default";

impl Caller {
    /// The sandbox of that name; without one the active sandbox, the caller's only one, or a new
    /// one where the operator allows that.
    pub async fn sandbox(&self, name: Option<&str>) -> Result<Arc<Sandbox>, Failure> {
        match name {
            Some(name) => self.named_sandbox(name),
            None => match self.active_sandbox()? {
                Some(sandbox) => Ok(sandbox),
                None => self.picked_sandbox().await,
            },
        }
    }

    /// The caller's running sandbox of that name or id.
    pub fn named_sandbox(&self, name: &str) -> Result<Arc<Sandbox>, Failure> {
        let Some(sandbox) = self.fleet().find(&self.owner, name) else {
            return Err(self.no_such_sandbox(name));
        };
        if let Err(reason) = sandbox.alive() {
            return Err(gone(&sandbox.record(), &reason));
        }
        self.goes_to(&sandbox);
        Ok(sandbox)
    }

    /// The active sandbox, if there is one; an error when it ended.
    pub fn active_sandbox(&self) -> Result<Option<Arc<Sandbox>>, Failure> {
        let Some(id) = self.workspace.state().active.clone() else { return Ok(None) };
        if self.fleet().find(&self.owner, id.as_str()).is_some() {
            return self.named_sandbox(id.as_str()).map(Some);
        }
        // It may run again under the same name, as a new sandbox with the same files.
        let name = self.fleet().record(&self.owner, id.as_str()).map_or(id.to_string(), |record| record.name);
        let sandbox = self.named_sandbox(&name)?;
        self.activate(Some(&sandbox));
        Ok(Some(sandbox))
    }

    /// Whether that sandbox is the active one.
    pub fn is_active(&self, sandbox: &str) -> bool {
        self.workspace.state().active.as_ref().is_some_and(|id| id.as_str() == sandbox)
    }

    /// Makes a sandbox the active one, or none.
    pub fn activate(&self, sandbox: Option<&Arc<Sandbox>>) {
        let mut state = self.workspace.state();
        state.active = sandbox.map(|sandbox| sandbox.id().clone());
        state.ended = false;
    }

    /// Launches a sandbox; the first one becomes active.
    pub async fn launch(&self, request: LaunchRequest) -> Result<Launched, Failure> {
        let (begun, action) =
            (Instant::now(), if request.server_url.is_some() { Action::Attach } else { Action::Launch });
        let name = request.name.clone();
        let launched = self.launched(request).await;
        let outcome = match &launched {
            Ok(launched) => {
                self.goes_to(&launched.sandbox);
                "ok"
            }
            Err(failure) => failure.code.as_str(),
        };
        self.audit_of(Some(&name), (action, outcome, begun.elapsed()));
        let launched = launched?;
        // One that ended is no longer in the way.
        let active = self.workspace.state().active.clone();
        if active.is_none_or(|id| self.fleet().find(&self.owner, id.as_str()).is_none()) {
            self.activate(Some(&launched.sandbox));
        }
        Ok(launched)
    }

    async fn launched(&self, request: LaunchRequest) -> Result<Launched, Failure> {
        tokio::select! {
            launched = self.fleet().launch(&self.owner, request, &self.call.progress) => Ok(launched?),
            () = self.call.cancel.cancelled() => {
                let message = "The launch was cancelled; what it had made is removed.";
                Err(Failure::new(Code::ExecutionCancelled, message))
            }
        }
    }

    /// Ends a sandbox; the next calls of a caller whose active one it was answer `sandbox.none`.
    pub async fn terminate(&self, name: &str) -> Result<Terminated, Failure> {
        let terminated = self.fleet().terminate(&self.owner, name, self.call.request.as_deref()).await?;
        self.workspaces.documents.forget(&terminated.record.id);
        let mut state = self.workspace.state();
        state.scratch.remove(&terminated.record.id);
        if state.active.as_ref() == Some(&terminated.record.id) {
            state.active = None;
            state.ended = true;
        }
        Ok(terminated)
    }

    async fn picked_sandbox(&self) -> Result<Arc<Sandbox>, Failure> {
        let running = self.running_sandboxes();
        let ended = self.workspace.state().ended;
        if let ([only], false) = (running.as_slice(), ended) {
            let sandbox = self.named_sandbox(only)?;
            self.activate(Some(&sandbox));
            self.note(format!("Sandbox '{only}', the only one that runs, is now the active one."));
            return Ok(sandbox);
        }
        if running.is_empty() && !ended && self.policy().auto_launch {
            return self.default_sandbox().await;
        }
        Err(Failure::new(Code::SandboxNone, no_active_sandbox(&running)))
    }

    /// The server that the operator named, else a sandbox that is launched.
    async fn default_sandbox(&self) -> Result<Arc<Sandbox>, Failure> {
        let Some(server) = &self.policy().default_server else {
            let request = LaunchRequest { name: DEFAULT_SANDBOX.to_owned(), ..LaunchRequest::default() };
            let launched = self.launch(request).await?;
            self.activate(Some(&launched.sandbox));
            self.note(format!("No sandbox was running: '{DEFAULT_SANDBOX}' was launched and is now the active one."));
            return Ok(launched.sandbox);
        };
        let request = LaunchRequest {
            name: server.name.clone(),
            variant: Some(ATTACHED.to_owned()),
            server_url: Some(server.url.clone()),
            token: server.token.clone(),
            operators: true,
            ..LaunchRequest::default()
        };
        let launched = self.launch(request).await?;
        self.activate(Some(&launched.sandbox));
        self.note(format!("The Jupyter server '{}', the default sandbox here, is now the active one.", server.name));
        Ok(launched.sandbox)
    }

    fn running_sandboxes(&self) -> Vec<String> {
        let records = self.fleet().list(&self.owner);
        records.into_iter().filter(|record| record.status == Status::Running).map(|record| record.name).collect()
    }

    /// The failure of naming a sandbox that doesn't run, saying why when it ended.
    fn no_such_sandbox(&self, name: &str) -> Failure {
        if let Some(record) = self.fleet().record(&self.owner, name) {
            if matches!(record.status, Status::Pending | Status::Starting | Status::Running) {
                let message = format!("Sandbox '{name}' is not ready yet; call again in a few seconds.");
                return Failure::new(Code::SandboxNotReady, message);
            }
            let reason = record.status_reason.clone().unwrap_or_else(|| record.status.as_str().to_owned());
            return gone(&record, &reason);
        }
        let running = self.running_sandboxes();
        let message = format!("You have no sandbox '{name}'. {}", which(&running));
        Failure::new(Code::SandboxNotFound, message)
    }
}

fn no_active_sandbox(running: &[String]) -> String {
    format!("No sandbox is active. {}", which(running))
}

fn which(running: &[String]) -> String {
    if running.is_empty() {
        return "Call launch_sandbox to start one.".to_owned();
    }
    format!("Call use_sandbox with one of those that run ({}), or launch_sandbox for a new one.", running.join(", "))
}
