//! The gateway that is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::process::{Process, clear};

/// A gateway of the release profile, with a data directory of its own and the user's cache.
pub(crate) struct Gateway {
    process: Process,
    pub(crate) url: String,
}

impl Gateway {
    pub(crate) async fn start(data: &Path) -> anyhow::Result<Self> {
        Self::start_with(data, &[]).await
    }

    /// One with these settings.
    pub(crate) async fn start_with(data: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        fs::create_dir_all(data)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
        clear(&mut command);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).args(settings);
        let log = data.join("gateway.log");
        let mut process = Process::spawn(command, &log)?;
        let url = process.wait_for("the gateway listens", || {
            let said = fs::read_to_string(&log).ok()?;
            let (_, url) = said.split_once("listening on ")?;
            url.split_once('\n').map(|(url, _)| url.trim().to_owned())
        });
        let url = url.await?;
        Ok(Self { process, url })
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()
    }

    /// In megabytes.
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        self.process.memory()
    }

    /// The Python that its sandboxes' Jupyter runs with.
    pub(crate) fn sandbox_python(&self) -> anyhow::Result<PathBuf> {
        let arguments = self.process.child_with("jupyter")?;
        arguments.first().map(PathBuf::from).context("the sandbox has a Jupyter")
    }
}
