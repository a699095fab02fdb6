//! A process that the bench started, and ends.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a process gets to listen.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

/// A child process, ended with this value.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it with its output in a file.
    pub(crate) fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let log = File::create(log).with_context(|| format!("{} can't be written", log.display()))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("{} can't be started", command.get_program().display()))?;
        Ok(Self(child))
    }

    /// Polls until `find` finds something; an error when the process ends or that takes too long.
    pub(crate) async fn wait_for<T>(&mut self, what: &str, mut find: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(found) = find() {
                return Ok(found);
            }
            if let Some(status) = self.0.try_wait()? {
                bail!("{what}: it ended ({status})");
            }
            if begun.elapsed() > LIMIT {
                bail!("{what}: not within {LIMIT:?}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends it at once, as the kernel's out-of-memory killer would.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// The memory it holds, in megabytes (`VmRSS`).
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes / 1024.0)
    }

    /// The arguments of its first child whose arguments contain `word`.
    pub(crate) fn child_with(&self, word: &str) -> anyhow::Result<Vec<String>> {
        for task in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let children = fs::read_to_string(task?.path().join("children"))?;
            for child in children.split_whitespace() {
                let arguments = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
                if arguments.contains(word) {
                    return Ok(arguments.split_terminator('\0').map(str::to_owned).collect());
                }
            }
        }
        bail!("there is no child with {word} in its arguments")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Asked to end, each ends what it started itself.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(15) {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes the settings away that the caller's environment may hold.
pub(crate) fn clear(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CELLGATE_", "JUPYTER_", "RUST_LOG"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
}

/// A port of this machine that is free now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether something listens on that port.
pub(crate) fn is_listening(port: u16) -> bool {
    std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
