//! The end of a sandbox: wished, written down, carried out.

use std::sync::{Arc, PoisonError};

use jiff::Timestamp;

use super::super::cause::Cause;
use super::super::{FleetError, Owner, Record, Status};
use super::files::{delete_if_ephemeral, take_away_unused};
use super::{ATTACHED, Fleet, Sandbox, Terminated};
use crate::audit::{Action, Event};
use crate::points;

impl Fleet {
    /// Ends a sandbox, and waits until nothing of it is left. Ending it again is fine.
    ///
    /// One that another gateway on this data directory looks after is ended by that gateway.
    pub async fn terminate(&self, owner: &Owner, name: &str, request: Option<&str>) -> Result<Terminated, FleetError> {
        self.wait_until_settled().await;
        let known = self.record(owner, name).ok_or_else(|| FleetError::NotFound(name.to_owned()))?;
        let lock = self.name_lock(owner, &known.name);
        let one_at_a_time = lock.lock().await;
        if let Some(sandbox) = self.own(owner, name) {
            return Ok(ended(self.end(&sandbox, Cause::Owner, request).await?));
        }
        let record = self.record(owner, name).unwrap_or(known);
        // One that was left alone is shown as lost, and may run.
        if !record.status.is_live() && !self.found().contains_key(&record.id) {
            let files = record.files.clone();
            return Ok(Terminated { record, already: true, detached: false, files });
        }
        if record.instance != self.instance.id() {
            // If that gateway dies meanwhile, it is ended here after all.
            drop(one_at_a_time);
            return self.terminate_elsewhere(record).await.map(ended);
        }
        Ok(ended(self.end_left_over(record, Cause::Owner).await?))
    }

    /// A planned stop: launches are refused, and every sandbox of this gateway ends, unless it is to be kept for the
    /// next start.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.wait_until_settled().await;
        // A launch under way takes its sandbox down again before its lock is free.
        let locks: Vec<_> = self.names.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for lock in locks {
            drop(lock.lock().await);
        }
        let sandboxes: Vec<_> = self.live().values().cloned().collect();
        let (kept, ending): (Vec<_>, Vec<_>) = sandboxes.into_iter().partition(|sandbox| self.outlives_a_stop(sandbox));
        for sandbox in &kept {
            self.write(&sandbox.record());
        }
        let ends = ending.iter().map(|sandbox| self.end_on_its_own(sandbox, Cause::Stopped));
        futures_util::future::join_all(ends).await;
        self.end_marked(&kept).await;
        let live = self.records.live().unwrap_or_default();
        if live.iter().any(|record| record.instance == self.instance.id()) {
            self.instance.leave_to_heirs();
        }
    }

    /// No launches from now on; what runs goes on.
    pub fn refuse_launches(&self) {
        self.stop.cancel();
    }

    fn outlives_a_stop(&self, sandbox: &Sandbox) -> bool {
        self.config.keep_on_stop || sandbox.outlives_a_stop()
    }

    /// Ends what else this gateway started: an environment that is half built.
    async fn end_marked(&self, kept: &[Arc<Sandbox>]) {
        for provider in &self.providers {
            let marked = provider.list().await.unwrap_or_else(|error| {
                tracing::error!(%error, "what this gateway started can't be looked for; the next start does");
                Vec::new()
            });
            let own = marked.into_iter().filter(|(_, instance)| instance == self.instance.id());
            for (id, _) in own.filter(|(id, _)| !kept.iter().any(|sandbox| sandbox.id() == id)) {
                if let Err(error) = provider.terminate(&id).await {
                    tracing::error!(%id, %error, "processes could not be ended; the next start does it");
                }
            }
        }
    }

    /// Ends a sandbox of this gateway and writes down why.
    pub(super) async fn end(
        &self,
        sandbox: &Arc<Sandbox>,
        cause: Cause,
        request: Option<&str>,
    ) -> Result<Record, FleetError> {
        self.wish(&sandbox.record(), &cause);
        let terminating = sandbox.change(|record| record.status = Status::Terminating);
        self.write(&terminating);
        points::reached("terminate.intended").await;
        if terminating.variant != ATTACHED {
            self.provider(&terminating.variant)?.terminate(sandbox.id()).await?;
        }
        points::reached("terminate.ended").await;
        let ended = sandbox.change(|record| over(record, &cause));
        let ended = self.written_end(ended, &cause, request).await;
        self.live().remove(sandbox.id());
        points::reached("terminate.recorded").await;
        Ok(ended)
    }

    /// Ends what is not among those that run: what a launch could not take down again, what a dead gateway left.
    pub(super) async fn end_left_over(&self, mut record: Record, cause: Cause) -> Result<Record, FleetError> {
        self.wish(&record, &cause);
        if record.variant != ATTACHED {
            let provider = self.provider(&record.variant)?;
            provider.terminate(&record.id).await?;
            if matches!(cause, Cause::Unfinished) {
                take_away_unused(&mut record, provider.store().as_ref()).await;
            }
        }
        over(&mut record, &cause);
        Ok(self.written_end(record, &cause, None).await)
    }

    /// Writes an end down, with what becomes of the files, and tells the audit trail.
    async fn written_end(&self, mut ended: Record, cause: &Cause, request: Option<&str>) -> Record {
        if let Ok(provider) = self.provider(&ended.variant) {
            delete_if_ephemeral(&mut ended, provider.store().as_ref()).await;
        }
        self.write(&ended);
        self.found().remove(&ended.id);
        let (status, reason) = (ended.status.as_str(), ended.status_reason.as_deref());
        tracing::info!(sandbox = %ended.id, status, reason, "sandbox ended");
        self.audit.record(&Event {
            event: Action::End,
            tenant: &ended.owner.tenant,
            principal: &ended.owner.principal,
            workspace: None,
            request,
            tool: None,
            sandbox: Some(ended.id.as_str()),
            name: Some(&ended.name),
            outcome: status,
            cause: Some(cause.word()),
            seconds: Timestamp::now().duration_since(ended.created_at).as_secs_f64(),
        });
        ended
    }

    /// Writes a record. On a full disk an end is remembered and written later: it must not fail for that.
    pub(super) fn write(&self, record: &Record) {
        let Err(error) = self.records.put(record) else { return };
        tracing::error!(sandbox = %record.id, %error, "a record can't be written");
        if !record.status.is_live() {
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
        }
    }

    /// Tries again to write the ends that could not be written.
    pub(super) fn write_unwritten(&self) {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        unwritten.retain(|record| self.records.put(record).is_err());
    }

    /// Written first, so that a gateway which dies now is followed by one that carries it out.
    fn wish(&self, record: &Record, cause: &Cause) {
        if let Err(error) = self.records.wish(&record.id, cause.status(), &cause.reason()) {
            tracing::error!(sandbox = %record.id, %error, "a wish can't be written");
        }
    }

    /// Wishes that a living sibling ends it, and waits until it has.
    async fn terminate_elsewhere(&self, record: Record) -> Result<Record, FleetError> {
        self.records.wish(&record.id, Status::Terminated, &Cause::Owner.reason())?;
        self.records.wait_for_end(&record).await
    }
}

fn over(record: &mut Record, cause: &Cause) {
    record.status = cause.status();
    record.status_reason = Some(cause.reason());
    record.url = None;
    record.last_activity_at = Timestamp::now();
}

fn ended(record: Record) -> Terminated {
    let (detached, files) = (record.variant == ATTACHED, record.files.clone());
    Terminated { record, already: false, detached, files }
}
