//! A gateway with the Docker provider, and what the engine has of it.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use tokio::sync::{RwLock, RwLockReadGuard};

use crate::harness::Berth;

/// Held for reading by whoever uses the engine, for writing by who stops it.
pub(crate) static ENGINE: RwLock<()> = RwLock::const_new(());

/// Runs the engine's command, which has to succeed; what it printed.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let (printed, ok) = tried(arguments);
    assert!(ok, "docker {arguments:?} failed: {printed}");
    printed
}

/// Runs the engine's command; what it printed, and whether it succeeded.
pub(crate) fn tried(arguments: &[&str]) -> (String, bool) {
    let ran = Command::new("docker").args(arguments).output().expect("docker is installed (tests/setup)");
    let text = if ran.status.success() { ran.stdout } else { [ran.stdout, ran.stderr].concat() };
    (String::from_utf8_lossy(&text).trim().to_owned(), ran.status.success())
}

/// A gateway that launches containers.
pub(crate) struct Dock {
    berth: Berth,
    /// Held, not used.
    engine: Option<RwLockReadGuard<'static, ()>>,
}

impl Deref for Dock {
    type Target = Berth;

    fn deref(&self) -> &Berth {
        &self.berth
    }
}

impl DerefMut for Dock {
    fn deref_mut(&mut self) -> &mut Berth {
        &mut self.berth
    }
}

impl Dock {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With more arguments.
    pub(crate) async fn with(arguments: &[&str]) -> Self {
        let engine = ENGINE.read().await;
        let mut dock = Self::unguarded(arguments).await;
        dock.engine = Some(engine);
        dock
    }

    /// For a test that stops the engine itself.
    pub(crate) async fn unguarded(arguments: &[&str]) -> Self {
        Self { berth: Berth::start(&[&["--variant", "docker"], arguments].concat()).await, engine: None }
    }

    /// With a sandbox named `box`.
    pub(crate) async fn with_box() -> Self {
        let dock = Self::start().await;
        dock.launch("box").await;
        dock
    }

    /// The names of its containers, those that ended too.
    pub(crate) fn containers(&self) -> Vec<String> {
        listed(self.data(), &["ps", "--all", "--format", "{{.Names}}"])
    }

    /// The names of its volumes.
    pub(crate) fn volumes(&self) -> Vec<String> {
        listed(self.data(), &["volume", "ls", "--format", "{{.Name}}"])
    }

    /// The container of a sandbox.
    pub(crate) async fn container(&self, name: &str) -> String {
        format!("cellgate-{}", self.record(name).await["id"].as_str().expect("an id"))
    }

    /// What the list says of `box` and what the engine has agree, sooner or later; the status.
    pub(crate) async fn truth(&self, case: &str) -> String {
        let homes = || self.volumes().iter().filter(|name| name.ends_with("-home")).count();
        let exists = |record: &serde_json::Value| {
            let own = format!("cellgate-{}", record["id"].as_str().unwrap_or_default());
            self.containers() == [own] && homes() == 1
        };
        self.berth.truth(case, exists, || self.containers().is_empty() && homes() == 0).await
    }
}

impl Drop for Dock {
    fn drop(&mut self) {
        // The engine is given back last; first the gateway ends, so that it makes nothing any more.
        let _engine = self.engine.take();
        self.berth.end();
        for container in self.containers() {
            tried(&["rm", "--force", "--volumes", &container]);
        }
        for volume in self.volumes() {
            tried(&["volume", "rm", "--force", &volume]);
        }
    }
}

/// What the engine lists of a data directory.
pub(crate) fn listed(data: &Path, command: &[&str]) -> Vec<String> {
    let Some(directory) = directory(data) else { return Vec::new() };
    let filter = format!("label=io.cellgate.directory={directory}");
    let printed = docker(&[command, &["--filter", &filter]].concat());
    printed.lines().map(str::to_owned).collect()
}

/// The id by which a data directory's things are labelled.
fn directory(data: &Path) -> Option<String> {
    let database = rusqlite::Connection::open(data.join("cellgate.db")).ok()?;
    database.query_row("SELECT id FROM directory", [], |row| row.get(0)).ok()
}
