//! The servers beside the gateway: Jupyter itself, and the Python server.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::harness::process::{self, Process, free_port, is_listening};

/// The token of the bench's own Jupyter servers.
pub(crate) const TOKEN: &str = "bench";

/// How a Jupyter of the bench is set up.
pub(crate) enum Kind {
    /// As in a sandbox.
    Sandbox,
    /// With `jupyter-collaboration`, as the Python server needs it, and otherwise as it comes.
    Collaboration,
}

/// A Jupyter server of the bench's own.
pub(crate) struct Jupyter {
    _process: Process,
    pub(crate) url: String,
}

impl Jupyter {
    pub(crate) async fn start(python: &Path, kind: Kind, home: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let root = home.join("files");
        fs::create_dir_all(&root)?;
        let mut command = Command::new(python);
        process::clear(&mut command);
        match kind {
            Kind::Sandbox => {
                let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("sandbox-images/python");
                command.arg(image.join("start_jupyter.py")).arg("--config").arg(image.join("jupyter_server_config.py"));
                command.env("CELLGATE_IP", "127.0.0.1").env("CELLGATE_PORT", port.to_string());
            }
            Kind::Collaboration => {
                command.args(["-m", "jupyter_server", "--allow-root", "--no-browser", "--ServerApp.ip=127.0.0.1"]);
                command.arg(format!("--ServerApp.port={port}"));
            }
        }
        // As in a sandbox: writing a log line for each request costs time.
        command.arg("--ServerApp.log_level=WARN");
        command.env("JUPYTER_TOKEN", TOKEN).env("HOME", home).current_dir(&root);
        let mut process = Process::spawn(command, &home.join("jupyter.log"))?;
        process.wait_for("Jupyter listens", || is_listening(port).then_some(())).await?;
        Ok(Self { _process: process, url: format!("http://127.0.0.1:{port}") })
    }
}

/// The Python server, with sessions as the gateway has them.
pub(crate) struct PythonServer {
    process: Process,
    pub(crate) url: String,
}

impl PythonServer {
    pub(crate) async fn start(python: &Path, jupyter: &str, home: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(python.with_file_name("jupyter-mcp-server"));
        process::clear(&mut command);
        command.args(["start", "--transport", "streamable-http", "--insecure-mcp-noauth"]);
        command.args(["--port", &port.to_string(), "--jupyter-url", jupyter, "--jupyter-token", TOKEN]);
        command.env("JUPYTER_MCP_STATEFUL", "true").env("HOME", home);
        let mut process = Process::spawn(command, &home.join("python-server.log"))?;
        process.wait_for("the Python server listens", || is_listening(port).then_some(())).await?;
        Ok(Self { process, url: format!("http://127.0.0.1:{port}/mcp") })
    }

    /// In megabytes.
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        self.process.memory()
    }
}
