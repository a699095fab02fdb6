//! The kernels behind a workspace's notebooks, and its scratch kernels.

use std::sync::Arc;

use super::binding::Binding;
use super::failure::jupyter_failure;
use super::notebooks::{OpenNotebook, Target};
use super::{Caller, lock};
use crate::answer::{Code, Failure};
use crate::jupyter::{Kernel, KernelChoice, KernelModel, SessionModel};
use crate::sandbox::Sandbox;

impl Caller {
    /// The notebook's kernel: the one it is bound to, its live session's, else a new one.
    pub async fn kernel(&self, target: &Target) -> Result<Arc<Kernel>, Failure> {
        if let Some(id) = bound(target) {
            return Ok(target.sandbox.server().kernel(&id));
        }
        let _one_at_a_time = target.document.binding.lock().await;
        if let Some(id) = bound(target) {
            return Ok(target.sandbox.server().kernel(&id));
        }
        if !self.bind_live_session(target).await? {
            self.start_session(target).await?;
        }
        match bound(target) {
            Some(id) => Ok(target.sandbox.server().kernel(&id)),
            None => Err(Failure::new(
                Code::KernelNotFound,
                "The notebook's kernel ended while it was starting; call again.",
            )),
        }
    }

    /// Binds what `use_notebook` asked for: a kernel by id, a `NEW` one, or the live session if there is one.
    pub(super) async fn bind_kernel(&self, target: &Target, wanted: Option<&str>) -> Result<(), Failure> {
        let _one_at_a_time = target.document.binding.lock().await;
        match wanted {
            None => self.bind_live_session(target).await.map(drop),
            Some(new) if new.eq_ignore_ascii_case("new") => {
                self.end_binding(target).await?;
                self.start_session(target).await
            }
            Some(id) => self.bind_running(target, id).await,
        }
    }

    /// Forgets a kernel that died or was deleted, so that the next run gets a new one.
    pub(super) fn forget_kernel(&self, sandbox: &Sandbox, kernel: &str) {
        sandbox.server().forget_kernel(kernel);
        let mut state = self.workspace.state();
        state.scratch.retain(|_, id| id != kernel);
        for open in &state.notebooks {
            let mut binding = lock(&open.kernel);
            if binding.as_ref().is_some_and(|binding| binding.kernel == kernel) {
                *binding = None;
            }
        }
    }

    /// Restarts the notebook's kernel; starts one when it has none. Whether one was restarted.
    pub async fn restart_kernel(&self, target: &Target) -> Result<bool, Failure> {
        if let Some(id) = bound(target) {
            let failure = |error| jupyter_failure(&target.sandbox, &error);
            if target.sandbox.server().kernel_model(&id).await.map_err(failure)?.is_some() {
                target.sandbox.server().kernel(&id).restart().await.map_err(failure)?;
                return Ok(true);
            }
            self.forget_kernel(&target.sandbox, &id);
        }
        self.kernel(target).await?;
        Ok(false)
    }

    /// Lets go of a closed notebook's kernel; whether it was shut down.
    pub(super) async fn release_kernel(&self, open: &OpenNotebook, sandbox: &Arc<Sandbox>) -> Result<bool, Failure> {
        let Some(binding) = lock(&open.kernel).take() else { return Ok(false) };
        let last = self.workspaces.users_of_kernel(&binding.kernel) == 0;
        if binding.sandbox != *sandbox.id() || !binding.ours || !last {
            return Ok(false);
        }
        let failure = |error| jupyter_failure(sandbox, &error);
        let model = sandbox.server().kernel_model(&binding.kernel).await.map_err(failure)?;
        // A connection that isn't ours is a person's.
        let own = u64::from(sandbox.server().kernel(&binding.kernel).is_connected());
        if model.is_none_or(|model| model.connections > own) {
            return Ok(false);
        }
        self.end_kernel(sandbox, &binding).await?;
        Ok(true)
    }

    /// This workspace's scratch kernel in a sandbox.
    pub async fn scratch_kernel(&self, sandbox: &Arc<Sandbox>) -> Result<Arc<Kernel>, Failure> {
        let known = || self.workspace.state().scratch.get(sandbox.id()).cloned();
        if let Some(id) = known() {
            return Ok(sandbox.server().kernel(&id));
        }
        let _one_at_a_time = self.workspaces.documents.creating().await;
        if let Some(id) = known() {
            return Ok(sandbox.server().kernel(&id));
        }
        let failure = |error| jupyter_failure(sandbox, &error);
        let specs = sandbox.server().kernelspecs().await.map_err(failure)?;
        let model = sandbox.server().start_kernel(&specs.default).await.map_err(failure)?;
        self.workspace.state().scratch.insert(sandbox.id().clone(), model.id.clone());
        Ok(sandbox.server().kernel(&model.id))
    }

    /// A running kernel by id, in that sandbox or in any of the caller's.
    pub async fn kernel_by_id(&self, id: &str, sandbox: Option<&str>) -> Result<(Arc<Sandbox>, KernelModel), Failure> {
        let names = match sandbox {
            Some(name) => vec![self.named_sandbox(name)?.name().to_owned()],
            None => self.fleet().list(&self.owner).into_iter().map(|record| record.name).collect(),
        };
        for name in &names {
            let Some(sandbox) = self.fleet().find(&self.owner, name) else { continue };
            match sandbox.server().kernel_model(id).await {
                Ok(Some(model)) => return Ok((sandbox, model)),
                // Another sandbox that can't answer doesn't hide the kernel of this one.
                Err(error) if names.len() == 1 => return Err(jupyter_failure(&sandbox, &error)),
                _ => {}
            }
        }
        let message = format!("No kernel '{id}' runs in your sandboxes; list_kernels shows those that do.");
        Err(Failure::new(Code::KernelNotFound, message))
    }

    async fn bind_running(&self, target: &Target, id: &str) -> Result<(), Failure> {
        let (sandbox, model) = self.kernel_by_id(id, Some(&target.open.sandbox)).await?;
        *lock(&target.open.kernel) =
            Some(Binding { sandbox: sandbox.id().clone(), kernel: model.id, session: None, ours: false });
        Ok(())
    }

    async fn bind_live_session(&self, target: &Target) -> Result<bool, Failure> {
        let sessions =
            target.sandbox.server().sessions().await.map_err(|error| jupyter_failure(&target.sandbox, &error))?;
        let Some(session) = sessions.into_iter().find(|session| session.path == target.open.path.as_str()) else {
            return Ok(false);
        };
        let ours = self.workspaces.users_of_kernel(&session.kernel.id) > 0;
        bind(target, session, ours);
        Ok(true)
    }

    async fn start_session(&self, target: &Target) -> Result<(), Failure> {
        let server = target.sandbox.server();
        let specs = server.kernelspecs().await.map_err(|error| jupyter_failure(&target.sandbox, &error))?;
        let notebook = target.document.read().await?;
        let name = notebook.kernelspec_name().unwrap_or(&specs.default).to_owned();
        if !specs.specs.contains_key(&name) {
            let installed: Vec<&str> = specs.specs.keys().map(String::as_str).collect();
            let message = format!(
                "The notebook asks for the kernel '{name}', which is not installed in sandbox '{}'; installed are {}. Bind one of them with use_notebook's kernel_id, or install '{name}'.",
                target.sandbox.name(),
                installed.join(", ")
            );
            return Err(Failure::new(Code::KernelNotInstalled, message));
        }
        let session = server.start_session(&target.open.path, KernelChoice::Name(name)).await;
        bind(target, session.map_err(|error| jupyter_failure(&target.sandbox, &error))?, true);
        Ok(())
    }

    async fn end_binding(&self, target: &Target) -> Result<(), Failure> {
        self.release_kernel(&target.open, &target.sandbox).await.map(drop)
    }

    async fn end_kernel(&self, sandbox: &Arc<Sandbox>, binding: &Binding) -> Result<(), Failure> {
        let failure = |error| jupyter_failure(sandbox, &error);
        match &binding.session {
            Some(session) => sandbox.server().delete_session(session).await.map_err(failure)?,
            None => sandbox.server().shutdown_kernel(&binding.kernel).await.map_err(failure)?,
        }
        sandbox.server().forget_kernel(&binding.kernel);
        Ok(())
    }
}

fn bind(target: &Target, session: SessionModel, ours: bool) {
    *lock(&target.open.kernel) = Some(Binding {
        sandbox: target.sandbox.id().clone(),
        kernel: session.kernel.id,
        session: Some(session.id),
        ours,
    });
}

/// The kernel that the notebook is bound to in the sandbox that runs now.
fn bound(target: &Target) -> Option<String> {
    let binding = lock(&target.open.kernel);
    binding.as_ref().filter(|binding| binding.sandbox == *target.sandbox.id()).map(|binding| binding.kernel.clone())
}
