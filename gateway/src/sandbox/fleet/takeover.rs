//! What dead gateways left: sandboxes that run go on under this one, everything else is cleared away. A living
//! sibling's are never touched.
//!
//! Nothing is removed before it was looked at twice, a second apart. What can't be told for sure is left
//! as it is, logged and counted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::cause::Cause;
use super::super::instance::State;
use super::super::provider::Found;
use super::super::{FleetError, Record, SandboxId, SandboxProvider, Status};
use super::attach::Reattached;
use super::{ATTACHED, Fleet, Sandbox};
use crate::jupyter::Server;

/// Between the two observations.
const BETWEEN: Duration = Duration::from_secs(1);
pub(super) const AGAIN: &str = "it was attached again";
/// Begins the id by which a provider marks what is no sandbox: the building of an environment.
const BUILD: &str = "build-";

/// What the first look found to be removed.
#[derive(Default)]
pub(super) struct Left {
    records: Vec<(Record, Cause)>,
    orphans: HashSet<SandboxId>,
    dead: Vec<String>,
}

/// What nothing could be told of, since its provider did not answer.
#[derive(Default)]
pub(super) struct Unknown {
    records: Vec<Record>,
    /// Whether there may be records that this data directory lost.
    recover: bool,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.orphans.is_empty()
    }
}

impl Fleet {
    /// The first look: takes over what dead gateways looked after, and goes on with what runs. Quick.
    pub(super) async fn take_over(&self) -> Left {
        let mut left = Left { dead: self.instance.dead(), ..Left::default() };
        self.looked_at().extend(left.dead.iter().cloned());
        let records = self.records.live().unwrap_or_else(|error| {
            tracing::error!(%error, "the records can't be read");
            Vec::new()
        });
        for record in records {
            if let Some(record) = self.taken_over(record).await
                && let Some(cause) = self.adopt(&record).await
            {
                self.found().insert(record.id.clone(), (cause.status(), cause.reason()));
                left.records.push((record, cause));
            }
        }
        let (recovered, is_known) = self.recovered().await;
        self.untold().recover = !is_known;
        for record in recovered {
            if let Some(cause) = self.adopt(&record).await {
                left.records.push((record, cause));
            }
        }
        left
    }

    /// Looks again, on the side, at what nothing could be told of.
    pub(super) fn look_at_unknown(self: &Arc<Self>) {
        let unknown = std::mem::take(&mut *self.untold());
        if unknown.records.is_empty() && !unknown.recover {
            return;
        }
        let fleet = Arc::clone(self);
        tokio::spawn(async move {
            let mut records = unknown.records;
            if unknown.recover {
                let (recovered, is_known) = fleet.recovered().await;
                fleet.untold().recover = !is_known;
                records.extend(recovered);
            }
            let mut left = Left::default();
            for record in records {
                if let Some(cause) = fleet.adopt(&record).await {
                    left.records.push((record, cause));
                }
            }
            fleet.settle(left).await;
        });
    }

    fn untold(&self) -> MutexGuard<'_, Unknown> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What providers have records of and this data directory lost; looked after from here from now on.
    /// Also whether all that there is was told.
    async fn recovered(&self) -> (Vec<Record>, bool) {
        let (mut recovered, mut is_known) = (Vec::new(), true);
        for provider in &self.providers {
            let Some(records) = provider.recover().await else {
                is_known = false;
                continue;
            };
            for record in records {
                if !matches!(self.records.get(&record.id), Ok(None)) {
                    continue;
                }
                // Whether it ever got ready is seen by whether it is.
                let record = Record { instance: self.instance.id().to_owned(), status: Status::Running, ..record };
                match self.records.put(&record) {
                    Ok(()) => recovered.push(record),
                    Err(error) => tracing::error!(sandbox = %record.id, %error, "a record can't be written"),
                }
            }
        }
        (recovered, is_known)
    }

    /// The second look: removes what is still to be removed.
    pub(super) async fn settle(self: Arc<Self>, mut left: Left) {
        let looked = self.orphans(&left.dead).await;
        let is_known = looked.is_some();
        left.orphans = looked.unwrap_or_default();
        if !left.is_empty() {
            tokio::time::sleep(BETWEEN).await;
        }
        for (record, cause) in std::mem::take(&mut left.records) {
            let lock = self.name_lock(&record.owner, &record.name);
            let _one_at_a_time = lock.lock().await;
            let id = record.id.clone();
            // A launch of its name may have gone on with it, or ended it, meanwhile.
            let is_left = self.records.get(&id).is_ok_and(|now| now.is_some_and(|now| now.status.is_live()));
            if is_left && !self.live().contains_key(&id) {
                self.remove(record, cause).await;
            }
            self.found().remove(&id);
        }
        if !left.orphans.is_empty() {
            self.end_orphans(&left).await;
        }
        if is_known {
            self.forget_dead(&left.dead).await;
        } else {
            // To be looked at again.
            self.looked_at().retain(|instance| !left.dead.contains(instance));
        }
        self.settled.send_replace(true);
    }

    /// The dead instances that were looked at. Their lock files stay while processes have their marks.
    fn looked_at(&self) -> MutexGuard<'_, HashSet<String>> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again whether a gateway died, while this one runs.
    pub(super) async fn look_for_dead(self: &Arc<Self>) {
        let news = |instance: &String| !self.looked_at().contains(instance);
        if !*self.settled.borrow() || !self.instance.dead().iter().any(news) {
            return;
        }
        let left = self.take_over().await;
        // Lifetimes don't wait for what is being removed, nor for launches whose names it waits for.
        tokio::spawn(Arc::clone(self).settle(left));
    }

    /// A record whose gateway is dead, looked after from here from now on.
    async fn taken_over(&self, mut record: Record) -> Option<Record> {
        if !self.may_be_taken_over(&record).await {
            return None;
        }
        match self.records.take_over(&record.id, &record.instance, self.instance.id()) {
            Ok(taken) => taken.then_some(())?,
            // The same server is attached here already.
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                self.write(&Record { status: Status::Terminated, status_reason: Some(AGAIN.to_owned()), ..record });
                return None;
            }
            Err(error) => {
                tracing::error!(%error, "a record can't be taken over");
                return None;
            }
        }
        self.instance.id().clone_into(&mut record.instance);
        Some(record)
    }

    /// What belonged to a dead gateway, or to one without a lock file if nothing of it runs: that one may live, its file
    /// removed by somebody.
    async fn may_be_taken_over(&self, record: &Record) -> bool {
        match self.instance.state(&record.instance) {
            State::Alive => false,
            State::Dead => true,
            State::Missing if record.variant == ATTACHED => true,
            State::Missing => {
                let runs = match self.provider(&record.variant) {
                    Ok(provider) => provider.runs(&record.id).await,
                    Err(_) => false,
                };
                if runs {
                    unclear(record.id.as_str(), "its gateway has no lock file, and it runs");
                }
                !runs
            }
        }
    }

    /// Goes on with a sandbox if it runs and is to run; else why it is to be removed.
    async fn adopt(&self, record: &Record) -> Option<Cause> {
        if let Some(cause) = Cause::wished(record) {
            return Some(cause);
        }
        if record.status != Status::Running {
            return Some(Cause::Unfinished);
        }
        if record.variant == ATTACHED {
            return match self.reattach(record) {
                Reattached::Here => None,
                Reattached::Not(reason) => Some(Cause::Lost(reason)),
            };
        }
        let Ok(provider) = self.provider(&record.variant) else {
            self.left_alone(record, "there is no such provider here");
            return None;
        };
        match provider.adopt(&record.id, record.backend.as_deref()).await {
            Found::Here => self.go_on(record, provider),
            Found::At(url) => self.go_on(&Record { url: Some(url), ..record.clone() }, provider),
            Found::Gone(reason) => {
                Some(Cause::Lost(reason.unwrap_or_else(|| "it ended while no gateway looked after it".to_owned())))
            }
            Found::Unclear(why) => {
                self.left_alone(record, &why);
                None
            }
            Found::Unknown => {
                let mut untold = self.untold();
                if untold.records.iter().all(|known| known.id != record.id) {
                    untold.records.push(record.clone());
                }
                None
            }
        }
    }

    fn go_on(&self, record: &Record, provider: Arc<dyn SandboxProvider>) -> Option<Cause> {
        let Some(token) = self.token(record) else {
            return Some(Cause::Lost("its master key is no longer in the key ring".to_owned()));
        };
        let server = record.url.as_deref().and_then(|url| Server::of_sandbox(url, token).ok());
        let Some(server) = server else { return Some(Cause::Lost("its address is not known".to_owned())) };
        tracing::info!(sandbox = %record.id, "going on with a sandbox of a gateway that ended");
        let sandbox = Sandbox::new(record.clone(), server, Some(provider));
        self.live().insert(record.id.clone(), Arc::new(sandbox));
        None
    }

    /// Looks again at a sandbox that was not found to run.
    pub(super) async fn second_look(&self, record: &Record) -> Option<Cause> {
        tokio::time::sleep(BETWEEN).await;
        let cause = self.adopt(record).await;
        if cause.is_none() && self.live().contains_key(&record.id) {
            self.found().remove(&record.id);
        }
        cause
    }

    async fn remove(&self, record: Record, cause: Cause) {
        // What ended on its own is looked for once more.
        if matches!(cause, Cause::Lost(_)) && record.wish == Status::Running && self.adopt(&record).await.is_none() {
            return;
        }
        let id = record.id.clone();
        if let Err(error) = self.end_left_over(record, cause).await {
            tracing::error!(sandbox = %id, %error, "a dead gateway's sandbox can't be ended");
        }
    }

    /// Looks on the side whether something is left of a sandbox that ended, such as what an engine made after its gateway
    /// was killed.
    pub(super) fn start_sweep(self: &Arc<Self>) {
        let fleet = Arc::clone(self);
        tokio::spawn(async move {
            let orphans = fleet.orphans(&[]).await.unwrap_or_default();
            if !orphans.is_empty() {
                tokio::time::sleep(BETWEEN).await;
                fleet.end_orphans(&Left { orphans, ..Left::default() }).await;
            }
        });
    }

    /// What is there and is to be gone: its sandbox ended, or it is a dead gateway's and no sandbox. Unknown when a provider
    /// can't tell what there is.
    async fn orphans(&self, dead: &[String]) -> Option<HashSet<SandboxId>> {
        let mut orphans = HashSet::new();
        for provider in &self.providers {
            for (id, instance) in provider.list().await.inspect_err(|error| tracing::warn!(%error)).ok()? {
                let is_dead = dead.contains(&instance);
                match self.records.get(&id) {
                    Ok(Some(record)) if record.status.is_live() => {}
                    Ok(Some(_)) => drop(orphans.insert(id)),
                    Ok(None) if !is_dead => {}
                    Ok(None) if id.as_str().starts_with(BUILD) => drop(orphans.insert(id)),
                    // Records come first, so this one's were lost. It ends when nobody has used it for its idle time.
                    Ok(None) => unclear(id.as_str(), "no record tells of it"),
                    Err(error) => tracing::error!(%error, "the records can't be read"),
                }
            }
        }
        Some(orphans)
    }

    /// Ends what was to be gone at the first look and still is.
    async fn end_orphans(&self, left: &Left) {
        let orphans = self.orphans(&left.dead).await.unwrap_or_default();
        for id in orphans.intersection(&left.orphans) {
            tracing::warn!(sandbox = %id, "ending what is left of a sandbox that ended");
            self.end_orphan(id).await;
        }
    }

    async fn end_orphan(&self, id: &SandboxId) {
        for provider in &self.providers {
            if let Err(error) = provider.terminate(id).await {
                tracing::error!(sandbox = %id, %error, "what is left of a sandbox can't be ended");
            }
        }
    }

    /// Forgets the dead of whom nothing is left.
    async fn forget_dead(&self, dead: &[String]) {
        let mut marked = HashSet::new();
        for provider in &self.providers {
            let Ok(listed) = provider.list().await else { return };
            marked.extend(listed.into_iter().map(|(_, instance)| instance));
        }
        let Ok(live) = self.records.live() else { return };
        marked.extend(live.into_iter().map(|record| record.instance));
        dead.iter().filter(|instance| !marked.contains(*instance)).for_each(|instance| self.instance.forget(instance));
    }

    /// Why a name is taken though nothing of it can be used.
    pub(super) fn left_as_it_is(&self, record: &Record) -> FleetError {
        let found = self.found().get(&record.id).map(|(_, why)| why.clone());
        let why =
            found.unwrap_or_else(|| "its provider doesn't answer, so it can't be told whether it runs".to_owned());
        FleetError::LeftAlone { name: record.name.clone(), why }
    }

    fn left_alone(&self, record: &Record, why: &str) {
        self.found().insert(record.id.clone(), (Status::Lost, format!("after a restart it was left alone: {why}")));
        unclear(record.id.as_str(), why);
    }

    /// What the first look found.
    pub(super) fn found(&self) -> MutexGuard<'_, HashMap<SandboxId, (Status, String)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unclear(id: &str, why: &str) {
    metrics::counter!("cellgate_unclear_total").increment(1);
    tracing::warn!(sandbox = id, why, "left as it is: it can't be told whose it is");
}
