//! The Jupyter process of a sandbox.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
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
use super::identity::Identity;
use super::port::Port;
use super::{marks, memory, variables};
use crate::sandbox::Plan;

/// Between two tries to connect to a Jupyter that starts.
const POLL: Duration = Duration::from_millis(15);
/// Between two looks whether the system killed something for want of memory.
const MEMORY_LOOK: Duration = Duration::from_secs(5);
/// How long Jupyter gets to end its kernels before everything is killed.
const ASKED: Duration = Duration::from_secs(2);
/// The end of the log that an error shows, in bytes.
const LOG_SHOWN: u64 = 1500;

/// What Jupyter and its kernels write to their standard streams.
const LOG: &str = "jupyter.log";
/// Where Jupyter says why it ended itself.
const ENDED: &str = "ended";
/// Why a process ended that is nobody's child here.
const UNSEEN: &str = "its Jupyter ended, and no gateway saw how";

/// How a process ended.
#[derive(Clone)]
enum Exit {
    Code(i32),
    Signal(i32),
    OutOfMemory,
    Unknown(String),
}

impl Exit {
    /// The sentence for callers; what the process said is of use only when it ended by itself.
    fn reason(&self, log: impl FnOnce() -> String) -> String {
        match self {
            Self::OutOfMemory => "its Jupyter was killed since the machine ran out of memory".to_owned(),
            Self::Signal(9) => "its Jupyter was killed (signal 9)".to_owned(),
            Self::Signal(signal) => format!("its Jupyter was ended by signal {signal}"),
            Self::Unknown(error) => format!("its Jupyter can't be watched ({error})"),
            Self::Code(code) => match log() {
                log if log.is_empty() => format!("its Jupyter ended with exit code {code}"),
                log => format!("its Jupyter ended with exit code {code} and last said: {log}"),
            },
        }
    }
}

/// A Jupyter process.
pub(super) struct Process {
    identity: Identity,
    directory: PathBuf,
    watch: Watch,
}

/// How it is known that a process ended.
enum Watch {
    /// It is a child of this gateway, which has kept a port for it.
    Child { port: Port, exit: watch::Receiver<Option<Exit>> },
    /// Another gateway started it: it is looked for.
    Adopted,
}

impl Process {
    /// Starts Jupyter on a port that the system chooses.
    pub(super) async fn spawn(
        plan: &Plan,
        directory: &Directory,
        workspace: &Path,
        environment: &Environment,
    ) -> io::Result<Self> {
        let port = Port::take()?;
        let out = OpenOptions::new().create(true).write(true).truncate(true).open(directory.join(LOG))?;
        let mut command = Command::new(environment.python());
        command
            .arg(directory.join("start_jupyter.py"))
            .arg("--config")
            .arg(directory.join("jupyter_server_config.py"))
            .arg("--ServerApp.log_level=WARN")
            .env_clear()
            .envs(variables::of(plan, directory, workspace, environment))
            .env("CELLGATE_PORT", port.number().to_string())
            .current_dir(workspace)
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0);
        let mut child = command.spawn()?;
        let identity = child.id().and_then(Identity::of);
        let identity = identity.ok_or_else(|| io::Error::other("Jupyter ended at once"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A Jupyter that ended before it read the token is noticed by its exit.
            let _ = stdin.write_all(format!("{}\n", plan.token.expose_secret()).as_bytes()).await;
        }
        let watch = Watch::Child { port, exit: watched(child) };
        Ok(Self { identity, directory: directory.path().to_owned(), watch })
    }

    /// One that another gateway started.
    pub(super) fn adopted(identity: Identity, directory: &Directory) -> Self {
        Self { identity, directory: directory.path().to_owned(), watch: Watch::Adopted }
    }

    /// Which process it is.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its URL under a base path.
    pub(super) fn url(&self, base: &str) -> String {
        format!("http://127.0.0.1:{}{base}", self.port())
    }

    /// The port it was given here; 0 for one that another gateway started.
    fn port(&self) -> u16 {
        match &self.watch {
            Watch::Child { port, .. } => port.number(),
            Watch::Adopted => 0,
        }
    }

    /// Waits until something listens on its port; the reason when it ended instead.
    pub(super) async fn listening(&self) -> Result<(), String> {
        while self.ended().is_none() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(self.ended().unwrap_or_default())
    }

    /// Why it is no longer running, if so.
    pub(super) fn ended(&self) -> Option<String> {
        let exit = match &self.watch {
            Watch::Child { exit, .. } => Some(exit.borrow().clone()?),
            Watch::Adopted if self.identity.is_alive() => return None,
            Watch::Adopted => None,
        };
        let reason = || exit.map_or_else(|| UNSEEN.to_owned(), |exit| exit.reason(|| self.last_log()));
        Some(own_reason(&self.directory).unwrap_or_else(reason))
    }

    /// Whether it ended because its port was not free: it tells the number for no other reason. Only where the system
    /// can't keep a port for it.
    pub(super) fn port_was_taken(&self) -> bool {
        self.ended().is_some() && self.last_log().contains(&self.port().to_string())
    }

    /// Asks Jupyter to end with its kernels, and waits a while.
    pub(super) async fn ask_to_end(&self) {
        if self.ended().is_none() {
            marks::signal(self.identity.pid, Signal::TERM);
        }
        // What is still there after that is killed.
        let _ = tokio::time::timeout(ASKED, self.end()).await;
    }

    async fn end(&self) {
        if let Watch::Child { exit, .. } = &self.watch {
            // The sender is gone only after it told the end.
            let _ = exit.clone().wait_for(Option::is_some).await;
            return;
        }
        while self.identity.is_alive() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// The end of what it wrote.
    pub(super) fn last_log(&self) -> String {
        let read = || {
            let mut log = File::open(self.directory.join(LOG))?;
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

/// What a Jupyter that ended itself wrote down.
pub(super) fn own_reason(directory: &Path) -> Option<String> {
    let reason = std::fs::read_to_string(directory.join(ENDED)).ok()?;
    reason.lines().next().map(|line| line.chars().take(200).collect()).filter(|line: &String| !line.is_empty())
}

/// Waits for the child, so that no zombie is left, and tells how it ended.
fn watched(mut child: Child) -> watch::Receiver<Option<Exit>> {
    let (sender, exit) = watch::channel(None);
    tokio::spawn(async move {
        let (mut kills, mut looks) = (None, tokio::time::interval(MEMORY_LOOK));
        let waited = loop {
            tokio::select! {
                waited = child.wait() => break waited,
                _ = looks.tick() => kills = memory::kills(),
            }
        };
        let ended = match waited {
            Ok(status) if status.signal() == Some(9) && memory::kills() > kills => Exit::OutOfMemory,
            Ok(status) => status.signal().map_or(Exit::Code(status.code().unwrap_or_default()), Exit::Signal),
            Err(error) => Exit::Unknown(error.to_string()),
        };
        sender.send_replace(Some(ended));
    });
    exit
}
