//! The processes of a sandbox, by the mark in their environment. Kernels start sessions of their
//! own, and so do what they start: a process group is not enough.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

/// Names a process's sandbox.
pub(super) const SANDBOX: &str = "CELLGATE_SANDBOX";
/// Names the gateway instance that started it.
pub(super) const INSTANCE: &str = "CELLGATE_INSTANCE";
/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(20);

/// One process. The number alone may be another's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pid: u32,
    started: u64,
}

/// The ids of the processes that belong to a sandbox: those with its mark, and their descendants.
pub fn running_processes(sandbox: &str) -> Vec<u32> {
    belonging(sandbox, &HashSet::new()).into_iter().map(|process| process.pid).collect()
}

/// What belongs to a sandbox: what has its mark or was `known` to belong to it, with all descendants.
///
/// A process that cleared its environment is known by its parents alone, so it has to be seen
/// before these end.
pub(super) fn belonging(sandbox: &str, known: &HashSet<Seen>) -> HashSet<Seen> {
    let system = look();
    let (mut children, mut next) = (HashMap::<Pid, Vec<Seen>>::new(), Vec::new());
    for (pid, process) in system.processes() {
        if matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead) {
            continue;
        }
        let seen = Seen { pid: pid.as_u32(), started: process.start_time() };
        if let Some(parent) = process.parent() {
            children.entry(parent).or_default().push(seen);
        }
        if known.contains(&seen) || value(process.environ(), SANDBOX).as_deref() == Some(sandbox) {
            next.push(seen);
        }
    }
    let mut found: HashSet<Seen> = next.iter().copied().collect();
    while let Some(process) = next.pop() {
        let below = children.get(&Pid::from_u32(process.pid)).into_iter().flatten();
        next.extend(below.filter(|child| found.insert(**child)));
    }
    // A gateway that runs inside a sandbox is not its own to end.
    found.retain(|process| process.pid != std::process::id());
    found
}

/// Every sandbox that has a process, with the instance that started it.
pub(super) fn marked() -> Vec<(String, String)> {
    let system = look();
    let marks = system
        .processes()
        .values()
        .filter_map(|process| Some((value(process.environ(), SANDBOX)?, value(process.environ(), INSTANCE)?)));
    marks.collect::<HashSet<_>>().into_iter().collect()
}

/// Whether a process carries the mark of a sandbox.
pub(super) fn carries(pid: u32, sandbox: &str) -> std::io::Result<bool> {
    let (mut system, pid) = (System::new(), Pid::from_u32(pid));
    let kind = ProcessRefreshKind::nothing().with_environ(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    let process = system.process(pid).ok_or(std::io::ErrorKind::NotFound)?;
    if process.environ().is_empty() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    Ok(value(process.environ(), SANDBOX).as_deref() == Some(sandbox))
}

/// Kills what belongs to a sandbox and waits until nothing is left.
pub(super) async fn end_all(sandbox: &str, mut known: HashSet<Seen>, grace: Duration) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let id = sandbox.to_owned();
        let left = tokio::task::spawn_blocking(move || kill_all(&id, &known));
        known = left.await.map_err(|error| error.to_string())?;
        if known.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > grace {
            return Err(format!("{} of its processes can't be killed", known.len()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn kill_all(sandbox: &str, known: &HashSet<Seen>) -> HashSet<Seen> {
    let processes = belonging(sandbox, known);
    for process in &processes {
        signal(process.pid, Signal::KILL);
    }
    processes
}

/// Signals a process; one that is gone already is fine.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn look() -> System {
    let mut system = System::new();
    let kind = ProcessRefreshKind::nothing().with_environ(UpdateKind::Always).without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    system
}

fn value(environ: &[OsString], name: &str) -> Option<String> {
    environ.iter().find_map(|variable| {
        let variable = variable.to_str()?;
        variable.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::process::Command;

    use super::{INSTANCE, SANDBOX, belonging, end_all, marked, running_processes};

    #[tokio::test]
    async fn what_is_marked_is_found_and_ended_with_its_children() {
        let id = format!("s-test{}", std::process::id());
        // The second `sleep` has neither the mark nor its parent's session.
        let script = "env -i setsid sleep 986 & sleep 985";
        let mut shell = Command::new("sh").args(["-c", script]).env(SANDBOX, &id).env(INSTANCE, "i").spawn().unwrap();
        while running_processes(&id).len() < 3 {
            tokio::time::sleep(super::LOOK).await;
        }
        assert!(marked().contains(&(id.clone(), "i".to_owned())));
        let waiting = tokio::task::spawn_blocking(move || shell.wait());
        end_all(&id, HashSet::new(), std::time::Duration::from_secs(5)).await.unwrap();
        waiting.await.unwrap().unwrap();
        assert!(running_processes(&id).is_empty());
    }

    #[tokio::test]
    async fn what_cleared_its_environment_is_ended_after_its_parent() {
        let id = format!("s-orphan{}", std::process::id());
        let mut shell =
            Command::new("sh").args(["-c", "env -i setsid sleep 984 & sleep 983"]).env(SANDBOX, &id).spawn().unwrap();
        while belonging(&id, &HashSet::new()).len() < 3 {
            tokio::time::sleep(super::LOOK).await;
        }
        let known = belonging(&id, &HashSet::new());
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(belonging(&id, &HashSet::new()).len() < belonging(&id, &known).len());
        end_all(&id, known.clone(), std::time::Duration::from_secs(5)).await.unwrap();
        assert!(belonging(&id, &known).is_empty());
    }
}
