//! Which process it is: a number alone is another process's sooner or later.

use serde::{Deserialize, Serialize};

/// One process of one boot of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Its number.
    pub(super) pid: u32,
    /// When it started; in clock ticks since the boot on Linux, in seconds of Unix time elsewhere.
    started: u64,
    /// The boot of the machine: ticks and numbers begin anew with the next.
    boot: String,
}

impl Identity {
    /// The process that has this number now, unless it ended.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: system::started(pid)?, boot: system::boot() })
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&self) -> bool {
        system::started(self.pid) == Some(self.started) && system::boot() == self.boot
    }

    /// As records have it.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From a record.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(target_os = "linux")]
mod system {
    /// From `/proc/PID/stat` (`proc_pid_stat(5)`), in which the name may hold spaces and parentheses.
    pub(super) fn started(pid: u32) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = fields.next()?;
        // The state is field 3, the start is field 22.
        (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
    }

    pub(super) fn boot() -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

    pub(super) fn started(pid: u32) -> Option<u64> {
        let (mut system, pid) = (System::new(), Pid::from_u32(pid));
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
        let process = system.process(pid)?;
        (!matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)).then(|| process.start_time())
    }

    pub(super) fn boot() -> String {
        System::boot_time().to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Identity;

    #[test]
    fn a_process_is_itself_until_it_ends_and_no_other_after() {
        let mut child = Command::new("sleep").arg("987").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        assert_eq!(Identity::from_text(&identity.to_text()).unwrap(), identity);
        assert!(identity.is_alive());
        let other = Identity { started: identity.started + 1, ..identity.clone() };
        assert!(!other.is_alive());
        child.kill().unwrap();
        // Dead, and not waited for: a zombie runs no more.
        while identity.is_alive() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!identity.is_alive() && Identity::of(child.id()).is_none());
    }
}
