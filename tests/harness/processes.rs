//! What runs on this machine, read from `/proc`.

use std::fs;
use std::path::Path;

/// A process, as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: i32,
    /// Its arguments, joined by spaces.
    pub(crate) command: String,
    /// Its first argument: the program as it was called.
    pub(crate) program: String,
}

impl Process {
    /// Ends it at once.
    pub(crate) fn kill(&self) {
        signal(self.pid, "KILL");
    }
}

/// Sends a signal by name; a process that is gone already is fine.
pub(crate) fn signal(pid: i32, name: &str) {
    let number = pid.to_string();
    let _ = std::process::Command::new("kill").args(["-s", name, &number]).stderr(std::process::Stdio::null()).status();
}

/// The live processes that carry a sandbox's mark and belong to the gateway with that data directory.
pub(crate) fn marked(data: &Path) -> Vec<Process> {
    let data = data.to_string_lossy();
    processes(|environment, _| environment.contains("CELLGATE_SANDBOX=") && environment.contains(&*data))
}

/// The live processes whose command line contains `words`.
pub(crate) fn mentioning(words: &str) -> Vec<Process> {
    processes(|_, command| command.contains(words))
}

fn processes(wanted: impl Fn(&str, &str) -> bool) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("this system has /proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        // A zombie has neither arguments nor an environment any more.
        let (environment, arguments) = (read("environ"), read("cmdline"));
        let command = arguments.replace('\0', " ").trim_end().to_owned();
        if !command.is_empty() && wanted(&environment, &command) {
            let program = arguments.split('\0').next().unwrap_or_default().to_owned();
            found.push(Process { pid, command, program });
        }
    }
    found
}
