//! A sandbox that runs.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::super::{Owner, Record, SandboxId, SandboxProvider, Status};
use super::ATTACHED;
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
    /// How many calls are at work in it.
    at_work: AtomicUsize,
    /// How often it was asked in a row whether it is used, and didn't answer.
    unanswered: AtomicU32,
}

/// A call that is at work in a sandbox, until this value goes.
pub struct AtWork(Arc<Sandbox>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.touch();
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
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
            at_work: AtomicUsize::new(0),
            unanswered: AtomicU32::new(0),
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

    /// It is being used, for as long as the answer is held.
    pub fn at_work(self: &Arc<Self>) -> AtWork {
        self.touch();
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(Arc::clone(self))
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) > 0
    }

    /// Notes whether it answered; how often in a row it did not.
    pub(super) fn note_answer(&self, answered: bool) -> u32 {
        if answered {
            self.unanswered.store(0, Ordering::Relaxed);
            return 0;
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether another gateway looks after it.
    pub fn is_siblings(&self) -> bool {
        self.provider.is_none() && self.record().variant != ATTACHED
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

    /// Whether something in it was just killed for want of memory, as far as that can be told.
    pub async fn ran_out_of_memory(&self) -> bool {
        match &self.provider {
            Some(provider) => provider.ran_out_of_memory(&self.id).await,
            None => false,
        }
    }

    /// The end of what it wrote, for people; empty where nothing is known of that.
    pub async fn last_words(&self) -> String {
        match &self.provider {
            Some(provider) => provider.last_words(&self.id).await,
            None => String::new(),
        }
    }

    /// Whether it goes on when its gateway is told to stop.
    pub(super) fn outlives_a_stop(&self) -> bool {
        self.provider.as_ref().is_none_or(|provider| provider.outlives_a_stop())
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
