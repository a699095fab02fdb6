//! A sandbox that runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::super::{Owner, Record, SandboxId, SandboxProvider, Status};
use crate::jupyter::Server;

/// When it was used through this gateway, and what its Jupyter knows of that.
struct Uses {
    last: Timestamp,
    told: Timestamp,
}

/// A running sandbox.
pub struct Sandbox {
    id: SandboxId,
    owner: Owner,
    name: String,
    server: Server,
    /// Who made it; nobody here did when it was attached.
    provider: Option<Arc<dyn SandboxProvider>>,
    uses: Mutex<Uses>,
    record: Mutex<Record>,
}

impl Sandbox {
    pub(super) fn new(record: Record, server: Server, provider: Option<Arc<dyn SandboxProvider>>) -> Self {
        Self {
            id: record.id.clone(),
            owner: record.owner.clone(),
            name: record.name.clone(),
            server,
            provider,
            uses: Mutex::new(Uses { last: record.last_activity_at, told: record.last_activity_at }),
            record: Mutex::new(record),
        }
    }

    /// Its id.
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Its Jupyter.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its record as it is now.
    pub fn record(&self) -> Record {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is being used.
    pub fn touch(&self) {
        let now = Timestamp::now();
        self.uses().last = now;
        self.change(|record| record.last_activity_at = now);
    }

    /// Whether it can be used, as far as is known without asking it; the reason when not.
    pub fn alive(&self) -> Result<(), String> {
        if let Some(reason) = self.lost() {
            return Err(reason);
        }
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        match record.status {
            Status::Running => Ok(()),
            Status::Terminating => Err("it is being ended".to_owned()),
            status => Err(record.status_reason.clone().unwrap_or_else(|| format!("it is {}", status.as_str()))),
        }
    }

    /// Why its processes are gone though nobody ended them, if so.
    pub(super) fn lost(&self) -> Option<String> {
        self.provider.as_ref()?.ended(&self.id)
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).idle_seconds.map(Duration::from_secs)
    }

    /// When its Jupyter was last told of uses that it had not seen itself.
    pub(super) fn told(&self) -> Timestamp {
        self.uses().told
    }

    /// Whether it was used since its Jupyter was told, and that is longer ago than `lag`.
    pub(super) fn has_to_tell(&self, lag: Duration) -> bool {
        let uses = self.uses();
        uses.last > uses.told && Timestamp::now().duration_since(uses.told).unsigned_abs() > lag
    }

    /// Its Jupyter knows of all uses until now.
    pub(super) fn has_told(&self) {
        self.uses().told = Timestamp::now();
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Record)) -> Record {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut record);
        record.clone()
    }
}
