//! Sandboxes that end on their own: expired, unused, or gone.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;

use super::super::Status;
use super::{Fleet, Sandbox};

/// Between two looks at every sandbox.
const LOOK: Duration = Duration::from_secs(1);
/// How far Jupyter's notion of activity may fall behind the gateway's, as a part of the idle time.
const LAG: u32 = 4;
const TELL_LIMIT: Duration = Duration::from_secs(5);

/// Looks after lifetimes for as long as the fleet is there.
pub(super) async fn watch(fleet: Weak<Fleet>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(fleet) = fleet.upgrade() else { return };
        let sandboxes: Vec<_> = fleet.live().values().cloned().collect();
        for sandbox in sandboxes {
            if let Some((status, reason)) = over(&sandbox).await {
                fleet.end_on_its_own(&sandbox, status, &reason).await;
            }
        }
    }
}

impl Fleet {
    async fn end_on_its_own(&self, sandbox: &Arc<Sandbox>, status: Status, reason: &str) {
        let lock = self.name_lock(sandbox.owner(), sandbox.name());
        let _one_at_a_time = lock.lock().await;
        // Somebody may have ended it while this waited.
        if !self.live().contains_key(sandbox.id()) {
            return;
        }
        if let Err(error) = self.end(sandbox, status, reason).await {
            tracing::error!(sandbox = %sandbox.id(), %error, "a sandbox could not be ended");
        }
    }
}

/// Whether a sandbox's time is over, and why.
async fn over(sandbox: &Sandbox) -> Option<(Status, String)> {
    if let Some(reason) = sandbox.lost() {
        return Some((Status::Lost, reason));
    }
    let (record, now) = (sandbox.record(), Timestamp::now());
    if let Some(expiry) = record.expires_at.filter(|expiry| *expiry <= now) {
        return Some((Status::Terminated, format!("it expired at {expiry:.0} (ttl_seconds)")));
    }
    let limit = sandbox.idle_timeout()?;
    if sandbox.has_to_tell(limit / LAG) {
        // One that doesn't answer is told at the next look; the others' time goes on meanwhile.
        let _ = tokio::time::timeout(TELL_LIMIT, tell(sandbox)).await;
    }
    if is_recent(record.last_activity_at, now, limit) || is_used_otherwise(sandbox, now, limit).await {
        return None;
    }
    Some((Status::Terminated, format!("it was not used for {} s", limit.as_secs())))
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

fn is_recent(activity: Timestamp, now: Timestamp, limit: Duration) -> bool {
    now.duration_since(activity).unsigned_abs() < limit
}

/// Whether somebody uses it past this gateway, such as a person or a sibling. Code that runs is use.
async fn is_used_otherwise(sandbox: &Sandbox, now: Timestamp, limit: Duration) -> bool {
    if last_use(sandbox).await.is_some_and(|used| is_recent(used, now, limit)) {
        return true;
    }
    // Asked second, since Jupyter counts this request as activity.
    let kernels = sandbox.server().kernels().await.unwrap_or_default();
    let busy = kernels.iter().any(|kernel| kernel.execution_state == "busy");
    if busy {
        sandbox.touch();
    }
    busy
}
