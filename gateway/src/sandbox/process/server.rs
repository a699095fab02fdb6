//! The Jupyter process of a sandbox.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use secrecy::ExposeSecret;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::directory::Directory;
use super::environment::Environment;
use super::port::Port;
use super::{marks, variables};
use crate::sandbox::Plan;

/// Between two tries to connect to a Jupyter that starts.
const POLL: Duration = Duration::from_millis(15);
/// How long Jupyter gets to end its kernels before everything is killed.
const ASKED: Duration = Duration::from_secs(2);
/// The end of the log that an error shows, in bytes.
const LOG_SHOWN: u64 = 600;

/// How a process ended.
#[derive(Clone)]
enum Exit {
    Code(i32),
    Signal(i32),
    Unknown(String),
}

impl Exit {
    /// The sentence for callers; what the process said is of use only when it ended by itself.
    fn reason(&self, log: impl FnOnce() -> String) -> String {
        match self {
            Self::Signal(9) => "its Jupyter was killed (signal 9), perhaps since memory ran out".to_owned(),
            Self::Signal(signal) => format!("its Jupyter was ended by signal {signal}"),
            Self::Unknown(error) => format!("its Jupyter can't be watched ({error})"),
            Self::Code(code) => match log() {
                log if log.is_empty() => format!("its Jupyter ended with exit code {code}"),
                log => format!("its Jupyter ended with exit code {code} and last said: {log}"),
            },
        }
    }
}

/// A Jupyter process that was started.
pub(super) struct Process {
    pid: u32,
    port: Port,
    log: PathBuf,
    exit: watch::Receiver<Option<Exit>>,
}

impl Process {
    /// Starts Jupyter on a port that the system chooses.
    pub(super) async fn spawn(plan: &Plan, directory: &Directory, environment: &Environment) -> io::Result<Self> {
        let port = Port::take()?;
        let log = directory.join("jupyter.log");
        let out = OpenOptions::new().create(true).write(true).truncate(true).open(&log)?;
        let mut command = Command::new(environment.python());
        command
            .arg(directory.join("start_jupyter.py"))
            .arg("--config")
            .arg(directory.join("jupyter_server_config.py"))
            .arg("--ServerApp.log_level=WARN")
            .env_clear()
            .envs(variables::of(plan, directory, environment, port.number()))
            .current_dir(&plan.workspace)
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0);
        let mut child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("Jupyter ended at once"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A Jupyter that ended before it read the token is noticed by its exit.
            let _ = stdin.write_all(format!("{}\n", plan.token.expose_secret()).as_bytes()).await;
        }
        Ok(Self { pid, port, log, exit: watched(child) })
    }

    /// Its URL under a base path.
    pub(super) fn url(&self, base: &str) -> String {
        format!("http://127.0.0.1:{}{base}", self.port.number())
    }

    /// Waits until something listens on its port; the reason when it ended instead.
    pub(super) async fn listening(&self) -> Result<(), String> {
        while self.ended().is_none() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number())).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(self.ended().unwrap_or_default())
    }

    /// Why it is no longer running, if so.
    pub(super) fn ended(&self) -> Option<String> {
        let exit = self.exit.borrow().clone()?;
        Some(exit.reason(|| self.last_log()))
    }

    /// Whether it ended because its port was not free: it tells the number for no other reason. Only where the system
    /// can't keep a port for it.
    pub(super) fn port_was_taken(&self) -> bool {
        self.exit.borrow().is_some() && self.last_log().contains(&self.port.number().to_string())
    }

    /// Asks Jupyter to end with its kernels, and waits a while.
    pub(super) async fn ask_to_end(&self) {
        let mut exit = self.exit.clone();
        if exit.borrow().is_none() {
            marks::signal(self.pid, Signal::TERM);
        }
        // What is still there after that is killed.
        let _ = tokio::time::timeout(ASKED, exit.wait_for(Option::is_some)).await;
    }

    fn last_log(&self) -> String {
        let read = || {
            let mut log = File::open(&self.log)?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(length.saturating_sub(LOG_SHOWN)))?;
            let mut bytes = Vec::new();
            log.take(LOG_SHOWN).read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // The first line may be cut.
            let whole = if length > LOG_SHOWN { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
            Ok::<_, io::Error>(whole.trim().to_owned())
        };
        read().unwrap_or_default()
    }
}

/// Waits for the child, so that no zombie is left, and tells how it ended.
fn watched(mut child: Child) -> watch::Receiver<Option<Exit>> {
    let (sender, exit) = watch::channel(None);
    tokio::spawn(async move {
        let ended = match child.wait().await {
            Ok(status) => status.signal().map_or(Exit::Code(status.code().unwrap_or_default()), Exit::Signal),
            Err(error) => Exit::Unknown(error.to_string()),
        };
        sender.send_replace(Some(ended));
    });
    exit
}
