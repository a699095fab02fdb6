//! How long sandboxes live, and the end of those whose time is over: expired, unused, or gone.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::cause::Cause;
use super::super::{FleetError, LaunchRequest, Record, SandboxId};
use super::{ATTACHED, Fleet, Sandbox};

/// Between two looks at every sandbox.
const LOOK: Duration = Duration::from_secs(1);
/// How far Jupyter's notion of activity may fall behind the gateway's, as a part of the idle time.
const LAG: u32 = 4;
const TELL_LIMIT: Duration = Duration::from_secs(5);
/// How long Jupyter may take to say whether it is used.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// So many times in a row without an answer, it is used by nobody.
const UNANSWERED: u32 = 30;
/// The longest life that means anything, in seconds: a century.
const LONGEST: u64 = 100 * 365 * 24 * 3600;
/// So many looks are between two at the other gateways.
const SIBLINGS_EVERY: u64 = 5;
/// So many looks are between two times that activity is written down.
const WRITE_EVERY: u64 = 60;

/// What the operator decided about lifetimes.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// How long a sandbox lives when its launch says nothing; without end where this is missing.
    pub ttl: Option<Duration>,
    /// The longest life that a launch may ask for.
    pub ttl_ceiling: Option<Duration>,
    /// How long a sandbox may stay unused when its launch says nothing.
    pub idle_timeout: Duration,
    /// The longest time without use that a launch may ask for.
    pub idle_ceiling: Option<Duration>,
}

impl Lifetimes {
    /// Refuses a launch that asks for a longer life than is allowed.
    pub(super) fn check(&self, request: &LaunchRequest) -> Result<(), FleetError> {
        let wishes = [
            ("ttl_seconds", request.ttl_seconds, self.ttl_ceiling),
            ("idle_timeout_seconds", request.idle_timeout_seconds, self.idle_ceiling),
        ];
        for (wish, asked, ceiling) in wishes {
            let ceiling = ceiling.map_or(LONGEST, |ceiling| ceiling.as_secs());
            if let Some(asked) = asked.filter(|asked| *asked > ceiling) {
                return Err(FleetError::TooLong { wish, asked, ceiling });
            }
        }
        Ok(())
    }

    /// How long the sandbox of a launch lives.
    pub(super) fn ttl(&self, request: &LaunchRequest) -> Option<Duration> {
        request.ttl_seconds.map(Duration::from_secs).or(self.ttl).or(self.ttl_ceiling)
    }

    /// How long the sandbox of a launch may stay unused.
    pub(super) fn idle(&self, request: &LaunchRequest) -> Duration {
        let asked = request.idle_timeout_seconds.map(Duration::from_secs);
        asked.unwrap_or_else(|| self.idle_ceiling.map_or(self.idle_timeout, |ceiling| self.idle_timeout.min(ceiling)))
    }
}

/// Looks after lifetimes for as long as the fleet is there.
pub(super) async fn watch(fleet: Weak<Fleet>) {
    for look in 1_u64.. {
        tokio::time::sleep(LOOK).await;
        let Some(fleet) = fleet.upgrade() else { return };
        if let Err(error) = fleet.instance.hold() {
            tracing::error!(%error, "the lock file of this gateway can't be made again");
        }
        fleet.write_unwritten();
        if look.is_multiple_of(SIBLINGS_EVERY) {
            fleet.look_for_dead().await;
            fleet.look_at_unknown();
        }
        let wished = fleet.records.to_end(fleet.instance.id()).unwrap_or_default();
        let sandboxes: Vec<_> = fleet.live().values().cloned().collect();
        fleet.end_wished(&wished);
        for sandbox in sandboxes {
            let wished = wished.iter().find(|record| record.id == *sandbox.id()).and_then(Cause::wished);
            fleet.start_look(sandbox, wished);
        }
        if look.is_multiple_of(WRITE_EVERY) {
            fleet.write_activity();
            fleet.start_sweep();
        }
    }
}

impl Fleet {
    /// Writes down when sandboxes were last used, for siblings, commands and the next start.
    fn write_activity(&self) {
        let live: Vec<_> = self.live().values().cloned().collect();
        let limit = LOOK * u32::try_from(WRITE_EVERY).unwrap_or(u32::MAX);
        let records = live.iter().map(|sandbox| sandbox.record());
        for record in records.filter(|record| is_recent(record.last_activity_at, Timestamp::now(), 2 * limit)) {
            if let Err(error) = self.records.used(&record.id, record.last_activity_at) {
                tracing::error!(sandbox = %record.id, %error, "a record can't be written");
            }
        }
    }

    /// Ends what is wished to end and doesn't run here: what a launch could not take down again.
    fn end_wished(self: &Arc<Self>, wished: &[Record]) {
        for record in wished.iter().filter(|record| !self.live().contains_key(&record.id)) {
            let (fleet, record, lock) = (Arc::clone(self), record.clone(), self.name_lock(&record.owner, &record.name));
            // Its launch, or its end, is under way.
            let Ok(turn) = lock.try_lock_owned() else { continue };
            tokio::spawn(async move {
                let _turn = turn;
                if let Some(cause) = Cause::wished(&record)
                    && let Err(error) = fleet.end_left_over(record, cause).await
                {
                    tracing::error!(%error, "what a launch left can't be ended");
                }
            });
        }
    }

    /// Looks at a sandbox on the side, unless that is under way: one that doesn't answer must not keep the others alive.
    fn start_look(self: &Arc<Self>, sandbox: Arc<Sandbox>, wished: Option<Cause>) {
        if !self.looking().insert(sandbox.id().clone()) {
            return;
        }
        let fleet = Arc::clone(self);
        tokio::spawn(async move {
            let cause = match wished {
                Some(cause) => Some(cause),
                None => over(&sandbox).await,
            };
            if let Some(cause) = cause {
                fleet.end_on_its_own(&sandbox, cause).await;
            }
            fleet.looking().remove(sandbox.id());
        });
    }

    fn looking(&self) -> MutexGuard<'_, HashSet<SandboxId>> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a sandbox that no caller ended, in its name's turn.
    pub(super) async fn end_on_its_own(&self, sandbox: &Arc<Sandbox>, cause: Cause) {
        let lock = self.name_lock(sandbox.owner(), sandbox.name());
        let _one_at_a_time = lock.lock().await;
        // Somebody may have ended it while this waited.
        if !self.live().contains_key(sandbox.id()) {
            return;
        }
        // Or have used it.
        if let Cause::Idle(limit) = cause
            && is_recent(sandbox.record().last_activity_at, Timestamp::now(), limit)
        {
            return;
        }
        if let Err(error) = self.end(sandbox, cause, None).await {
            tracing::error!(sandbox = %sandbox.id(), %error, "a sandbox could not be ended; it is tried again, at the next start at the latest");
        }
    }
}

/// Whether a sandbox's time is over, and why.
async fn over(sandbox: &Sandbox) -> Option<Cause> {
    if let Some(reason) = sandbox.lost() {
        return Some(Cause::Lost(reason));
    }
    let (record, now) = (sandbox.record(), Timestamp::now());
    if record.variant == ATTACHED {
        return None;
    }
    if let Some(expiry) = record.expires_at.filter(|expiry| *expiry <= now) {
        return Some(Cause::Expired(expiry));
    }
    let limit = sandbox.idle_timeout()?;
    if sandbox.has_to_tell(limit / LAG) {
        // One that doesn't answer is told at the next look; the others' time goes on meanwhile.
        let _ = tokio::time::timeout(TELL_LIMIT, tell(sandbox)).await;
    }
    if sandbox.is_at_work() || is_recent(record.last_activity_at, now, limit) {
        return None;
    }
    let used = tokio::time::timeout(ASK_LIMIT, is_used_otherwise(sandbox, now, limit)).await.ok().flatten();
    let unanswered = sandbox.note_answer(used.is_some());
    // What doesn't answer may be busy; what never answers any more is used by nobody.
    (used == Some(false) || unanswered >= UNANSWERED).then_some(Cause::Idle(limit))
}

/// Lets Jupyter know of uses that it saw nothing of, since it ends itself when it believes that nobody uses it.
async fn tell(sandbox: &Sandbox) {
    // What others did is no longer told apart after that.
    last_use(sandbox).await;
    match sandbox.server().touch().await {
        Ok(()) => sandbox.has_told(),
        Err(error) => tracing::debug!(sandbox = %sandbox.id(), %error, "Jupyter can't be told that it is used"),
    }
}

/// When Jupyter was last used, as it knows; the gateway's own telling is no use.
async fn last_use(sandbox: &Sandbox) -> Option<Timestamp> {
    let status = sandbox.server().status().await.ok()?;
    let seen = status.get("last_activity")?.as_str()?.parse::<Timestamp>().ok()?;
    let seen = Some(seen).filter(|seen| *seen > sandbox.told())?;
    sandbox.change(|record| record.last_activity_at = record.last_activity_at.max(seen));
    Some(seen)
}

/// Whether that was less than `limit` ago. A time in the future is: the clock was set back.
fn is_recent(activity: Timestamp, now: Timestamp, limit: Duration) -> bool {
    SignedDuration::try_from(limit).is_ok_and(|limit| now.duration_since(activity) < limit)
}

/// Whether somebody uses it past this gateway, such as a person or a sibling. Code that runs is use, and so is a
/// connection to a kernel that isn't this gateway's own. Nothing can be told of one that doesn't answer.
async fn is_used_otherwise(sandbox: &Sandbox, now: Timestamp, limit: Duration) -> Option<bool> {
    if last_use(sandbox).await.is_some_and(|used| is_recent(used, now, limit)) {
        return Some(true);
    }
    // Asked second, since Jupyter counts this request as activity.
    let kernels = sandbox.server().kernels().await.ok()?;
    let used = kernels.iter().any(|kernel| {
        let own = u64::from(sandbox.server().is_connected(&kernel.id));
        kernel.execution_state == "busy" || kernel.connections > own
    });
    if used {
        sandbox.touch();
    }
    Some(used)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LaunchRequest, Lifetimes};

    #[test]
    fn a_launch_asks_up_to_the_ceiling_and_gets_the_default_without_asking() {
        let lifetimes = Lifetimes {
            ttl: None,
            ttl_ceiling: Some(Duration::from_secs(100)),
            idle_timeout: Duration::from_secs(3600),
            idle_ceiling: Some(Duration::from_secs(60)),
        };
        let asks =
            |ttl, idle| LaunchRequest { ttl_seconds: ttl, idle_timeout_seconds: idle, ..LaunchRequest::default() };
        assert!(lifetimes.check(&asks(Some(100), Some(60))).is_ok());
        let refused = lifetimes.check(&asks(Some(101), None)).unwrap_err().to_string();
        assert!(refused.contains("ttl_seconds 101") && refused.contains("100 that"), "{refused}");
        assert!(lifetimes.check(&asks(None, Some(61))).is_err());
        let unlimited = Lifetimes { ttl_ceiling: None, ..lifetimes };
        assert!(unlimited.check(&asks(Some(u64::MAX), None)).is_err());
        assert_eq!(lifetimes.ttl(&asks(None, None)), Some(Duration::from_secs(100)));
        assert_eq!(lifetimes.idle(&asks(None, None)), Duration::from_secs(60));
        assert_eq!(lifetimes.idle(&asks(None, Some(5))), Duration::from_secs(5));
    }
}
