//! Sandboxes as local processes: one Jupyter server each, with its own directory and packages.
//!
//! It isolates nothing: cells run as the user who runs the gateway, and can read and write what
//! that user can.

mod directory;
mod environment;
mod folders;
mod identity;
mod interpreter;
mod marks;
mod memory;
mod port;
mod server;
mod variables;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

pub use marks::running_processes;

use super::removal;
use super::{
    Endpoint, FleetConfig, Found, LaunchRequest, Plan, Progress, ProviderError, SandboxId, SandboxProvider,
    WorkspaceStore, check_variables,
};
use directory::Directory;
use environment::{Builder, Environment};
use folders::Folders;
use identity::Identity;
use server::Process;

/// How often a port that somebody else took meanwhile is replaced by another.
const PORTS: usize = 5;
/// How long a process that is being ended by the system may take to be gone.
const ENDING: Duration = Duration::from_secs(5);
/// Between two looks whether it is.
const LOOK: Duration = Duration::from_millis(10);

/// The process provider.
pub(super) struct ProcessProvider {
    folder: PathBuf,
    folders: Folders,
    builder: Builder,
    running: Mutex<HashMap<SandboxId, Arc<Process>>>,
}

impl ProcessProvider {
    /// The provider of a data directory; builds nothing yet.
    pub(super) fn new(config: &FleetConfig, instance: &str) -> Self {
        let builder = Builder::new(config, instance);
        let folders = Folders::new(&config.data_dir);
        Self { folder: config.data_dir.join("sandboxes"), folders, builder, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Process>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self, plan: &Plan, environment: &Environment) -> Result<Endpoint, ProviderError> {
        let directory = Directory::new(&self.folder, &plan.id);
        let workspace = self.folders.path(&plan.owner, &plan.request.name);
        directory.make(environment, &workspace).map_err(|error| failed(&error))?;
        for _ in 0..PORTS {
            let process = Process::spawn(plan, &directory, &workspace, environment).await;
            let process = process.map_err(|error| failed(&error))?;
            let process = Arc::new(process);
            self.running().insert(plan.id.clone(), Arc::clone(&process));
            match process.listening().await {
                Ok(()) => {
                    let (url, backend) = (process.url(&plan.base_url), Some(process.identity().to_text()));
                    return Ok(Endpoint { url, backend, image: None });
                }
                Err(_) if process.port_was_taken() => {}
                Err(reason) => return Err(ProviderError::Failed(reason)),
            }
        }
        Err(ProviderError::Failed("no free port was found on 127.0.0.1".to_owned()))
    }

    async fn end(&self, id: &SandboxId) -> Result<(), ProviderError> {
        let name = id.as_str().to_owned();
        let known = tokio::task::spawn_blocking(move || marks::belonging(&name, &HashSet::new()));
        let known = known.await.unwrap_or_default();
        let process = self.running().get(id).cloned();
        if let Some(process) = &process {
            process.ask_to_end().await;
        }
        marks::end_all(id.as_str(), known, self.grace()).await.map_err(ProviderError::NotEnded)?;
        self.running().remove(id);
        // Nothing of it runs any more: what can't be removed is no reason to call it alive.
        if let Err(error) = removal::remove(Directory::new(&self.folder, id).path()).await {
            tracing::error!(sandbox = %id, %error, "the directory of a sandbox that ended can't be removed");
        }
        Ok(())
    }
}

impl SandboxProvider for ProcessProvider {
    fn variant(&self) -> &'static str {
        "process"
    }

    fn accept(&self, request: &LaunchRequest) -> Result<(), ProviderError> {
        match request.unkept(&["env", "ttl_seconds", "idle_timeout_seconds"]) {
            Some(wish) => Err(ProviderError::Unsupported { variant: self.variant(), wish }),
            None => check_variables(&request.env),
        }
    }

    fn prepare<'a>(&'a self, _: &'a LaunchRequest, progress: &'a Progress) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { self.builder.environment(progress).await.map(drop) })
    }

    fn launch<'a>(&'a self, plan: &'a Plan, progress: &'a Progress) -> BoxFuture<'a, Result<Endpoint, ProviderError>> {
        Box::pin(async move {
            let environment = self.builder.environment(progress).await?;
            progress.say("starting Jupyter");
            self.start(plan, &environment).await
        })
    }

    fn adopt<'a>(&'a self, id: &'a SandboxId, backend: Option<&'a str>) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let directory = Directory::new(&self.folder, id);
            let gone = || Found::Gone(server::own_reason(directory.path()));
            let Some(identity) = backend.and_then(Identity::from_text).filter(Identity::is_alive) else {
                return gone();
            };
            let begun = Instant::now();
            loop {
                match marks::carries(identity.pid, id.as_str()) {
                    Ok(true) => {
                        let process = Arc::new(Process::adopted(identity, &directory));
                        self.running().insert(id.clone(), process);
                        return Found::Here;
                    }
                    Ok(false) => return Found::Unclear(format!("process {} doesn't carry its mark", identity.pid)),
                    // It ended since, or its environment is another user's, or it is ending: that takes the environment
                    // away a moment before the process.
                    Err(_) if !identity.is_alive() => return gone(),
                    Err(_) if begun.elapsed() < ENDING => tokio::time::sleep(LOOK).await,
                    Err(error) => {
                        return Found::Unclear(format!("the mark of process {} can't be read: {error}", identity.pid));
                    }
                }
            }
        })
    }

    fn runs<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, bool> {
        Box::pin(async { !marks::running_processes(id.as_str()).is_empty() })
    }

    fn ended(&self, id: &SandboxId) -> Option<String> {
        self.running().get(id)?.ended()
    }

    fn last_words<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, String> {
        let process = self.running().get(id).cloned();
        Box::pin(async move { process.map_or_else(String::new, |process| process.last_log()) })
    }

    fn terminate<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.end(id))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SandboxId, String)>, ProviderError>> {
        Box::pin(async {
            let marked = tokio::task::spawn_blocking(marks::marked).await.unwrap_or_default();
            Ok(marked.into_iter().map(|(id, instance)| (SandboxId::from_record(id), instance)).collect())
        })
    }

    fn store(&self) -> Arc<dyn WorkspaceStore> {
        Arc::new(self.folders.clone())
    }

    fn ready(&self) -> Result<(), String> {
        self.builder.ready()
    }
}

/// Whether this provider can run here: the sentence for `doctor`.
pub(super) async fn doctor(config: &FleetConfig) -> Result<String, String> {
    let python = interpreter::find(config.python.as_deref()).await?;
    let builder = Builder::new(config, "doctor");
    let built = if builder.is_built(&python) {
        "its environment is built"
    } else {
        "its environment is built at the first start"
    };
    Ok(format!("Python {} ({}); {built}. Isolates nothing: cells run as you", python.version, python.program.display()))
}

fn failed(error: &std::io::Error) -> ProviderError {
    ProviderError::Failed(error.to_string())
}
