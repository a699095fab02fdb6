//! A gateway process of its own: started, watched and ended.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

use super::processes::signal;
use super::wait::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cellgate");

/// Ends the gateway when the pipe from the test binary closes, however that ended, and tidies up.
const WATCHDOG: &str = r#"read _; kill -TERM "$1" 2>/dev/null
n=0; while kill -0 "$1" 2>/dev/null && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.1; done
kill -KILL "$1" 2>/dev/null; [ -n "$2" ] || exit
for left in $(grep -lzs -- "$2" /proc/[0-9]*/environ); do left=${left#/proc/}; kill -KILL "${left%/environ}" 2>/dev/null; done
rm -rf "$2""#;

/// How a gateway is to be started.
#[derive(Default)]
pub(crate) struct Start {
    data: Option<PathBuf>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    listen: Option<String>,
}

impl Start {
    /// On another address than a free port of 127.0.0.1.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        self.listen = Some(address.to_owned());
        self
    }

    /// On a data directory that outlives it.
    pub(crate) fn data(mut self, data: &Path) -> Self {
        self.data = Some(data.to_owned());
        self
    }

    /// With one more variable in its environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With one more argument.
    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The program with a subcommand, in an environment without the caller's own settings.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        for (name, _) in std::env::vars() {
            if name.starts_with("CELLGATE_") || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        command.arg(subcommand).args(&self.arguments);
        if let Some(data) = &self.data {
            command.arg("--data-dir").arg(data);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts `serve` on a free port and waits until it says where it listens.
    pub(crate) fn serve(mut self) -> Gateway {
        let directory = self.data.is_none().then(|| TempDir::new().expect("a temporary directory"));
        let data =
            self.data.get_or_insert_with(|| directory.as_ref().map(TempDir::path).expect("made above").to_owned());
        let data = data.clone();
        let mut command = self.command("serve");
        command
            .arg("--listen")
            .arg(self.listen.as_deref().unwrap_or("127.0.0.1:0"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the gateway starts");
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (said, address) = mpsc::channel();
        follow(child.stdout.take().expect("piped"), &log, &said);
        follow(child.stderr.take().expect("piped"), &log, &said);
        drop(said);
        let watchdog = watch(&child, directory.as_ref().map(TempDir::path));
        let url = address.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| {
            let _ = child.kill();
            panic!("the gateway does not say where it listens:\n{}", log.lock().unwrap().join("\n"))
        });
        Gateway { child: Mutex::new(child), url, data, log, watchdog, directory }
    }
}

/// A gateway that runs. It is ended with this value, as by Ctrl-C.
pub(crate) struct Gateway {
    child: Mutex<Child>,
    url: String,
    data: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    watchdog: Child,
    directory: Option<TempDir>,
}

impl Gateway {
    /// A gateway with a data directory of its own.
    pub(crate) fn start() -> Self {
        Start::default().serve()
    }

    /// Where it answers MCP.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        self.url.trim_end_matches("/mcp")
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The working directory of one of its sandboxes.
    pub(crate) fn files(&self, sandbox: &str) -> PathBuf {
        self.data.join("workspaces/local").join(sandbox)
    }

    /// What it wrote to its standard streams so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// What it takes, in megabytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().map_or(0, |kilobytes: u64| kilobytes / 1024)
    }

    /// Whether it still runs.
    pub(crate) fn is_up(&self) -> bool {
        self.ended().is_none()
    }

    /// Ends it at once, as the kernel's out-of-memory killer would.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Sends a signal and waits for the end that it should bring.
    pub(crate) async fn end_by(&self, name: &str) -> ExitStatus {
        self.signal(name);
        eventually("the gateway ends", Duration::from_secs(30), || !self.is_up()).await;
        self.ended().expect("it ended")
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.lock().unwrap().id()).expect("a process id")
    }

    fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().expect("its state is known")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(child.id())) {
            signal(pid, "INT");
            let _ = child.wait();
        }
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        if std::thread::panicking() {
            eprintln!("the gateway said:\n{}", self.log.lock().unwrap().join("\n"));
        }
        drop(self.directory.take());
    }
}

fn follow(stream: impl Read + Send + 'static, log: &Arc<Mutex<Vec<String>>>, said: &Sender<String>) {
    let (log, said) = (Arc::clone(log), said.clone());
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some((_, url)) = line.split_once("listening on ") {
                let _ = said.send(url.split_whitespace().next().unwrap_or_default().to_owned());
            }
            log.lock().unwrap().push(line);
        }
    });
}

fn watch(child: &Child, directory: Option<&Path>) -> Child {
    let directory = directory.unwrap_or(Path::new(""));
    Command::new("sh")
        .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh starts")
}
