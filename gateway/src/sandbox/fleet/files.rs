//! What becomes of the files of sandboxes that ended.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::records::Records;
use super::super::store::{StoredFiles, WorkspaceStore};
use super::super::{FleetError, Owner, Record, SandboxProvider};
use super::Fleet;

/// Between two looks at what the operator's retention ends.
const LOOK: Duration = Duration::from_secs(3600);

/// The files of a name, which no sandbox uses.
pub struct KeptFiles {
    /// Whose they are.
    pub owner: Owner,
    /// The sandbox's name, which brings them back.
    pub name: String,
    /// Where they are.
    pub place: String,
    /// How large they are; unknown where nobody tells.
    pub bytes: Option<u64>,
    /// When they were last changed, or their sandbox last used.
    pub used_at: Timestamp,
    store: Arc<dyn WorkspaceStore>,
}

impl KeptFiles {
    /// Whether they were not used for that long. A time in the future is no use long ago, whatever the clock did.
    pub fn is_older_than(&self, limit: Duration) -> bool {
        SignedDuration::try_from(limit).is_ok_and(|limit| Timestamp::now().duration_since(self.used_at) >= limit)
    }
}

/// The files that providers keep and that no sandbox uses, by owner and name.
///
/// # Errors
/// When they or the records can't be read.
pub(in super::super) async fn kept_files(
    providers: &[Arc<dyn SandboxProvider>],
    records: &Records,
) -> Result<Vec<KeptFiles>, FleetError> {
    let mut stored: Vec<(StoredFiles, Arc<dyn WorkspaceStore>)> = Vec::new();
    for store in providers.iter().map(|provider| provider.store()) {
        stored.extend(store.list().await?.into_iter().map(|files| (files, Arc::clone(&store))));
    }
    let known = records.all()?;
    let mut kept = Vec::new();
    for (files, store) in stored {
        let record = known.iter().find(|record| record.owner == files.owner && record.name == files.name);
        if record.is_some_and(|record| record.status.is_live()) {
            continue;
        }
        let used_at = record.map_or(files.changed_at, |record| files.changed_at.max(record.last_activity_at));
        let StoredFiles { owner, name, place, bytes, .. } = files;
        kept.push(KeptFiles { owner, name, place, bytes, used_at, store });
    }
    kept.sort_by(|one, other| (&one.owner, &one.name, &one.place).cmp(&(&other.owner, &other.name, &other.place)));
    Ok(kept)
}

/// Deletes the files of a name, unless a sandbox uses them by now; whether they were.
///
/// # Errors
/// When they can't be deleted.
pub(in super::super) async fn prune(files: &KeptFiles, records: &Records) -> Result<bool, FleetError> {
    let (owner, name, store) = (files.owner.clone(), files.name.clone(), Arc::clone(&files.store));
    let (records, runtime) = (records.clone(), tokio::runtime::Handle::current());
    // Taken away while no sandbox of the name can be launched, so a launch finds all of its files or none.
    let taken = tokio::task::spawn_blocking(move || {
        let mut rest = None;
        let take = || runtime.block_on(store.take_away(&owner, &name)).map(|left| rest = Some(left));
        records.unless_live(&owner, &name, take).map(|_| rest)
    });
    let Some(rest) = taken.await.map_err(io::Error::other)?? else { return Ok(false) };
    rest.await?;
    Ok(true)
}

/// Deletes what was not used for as long as the operator keeps it.
pub(super) async fn keep_retention(fleet: Weak<Fleet>) {
    loop {
        {
            let Some(fleet) = fleet.upgrade() else { return };
            let Some(retention) = fleet.config.retention else { return };
            fleet.wait_until_settled().await;
            if let Err(error) = fleet.prune_older_than(retention).await {
                tracing::error!(%error, "old files can't be deleted");
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Fleet {
    async fn prune_older_than(&self, retention: Duration) -> Result<(), FleetError> {
        for provider in &self.providers {
            if let Err(error) = provider.store().clear_up().await {
                tracing::error!(%error, "what a deletion left can't be deleted");
            }
        }
        let kept = kept_files(&self.providers, &self.records).await?;
        for files in kept.iter().filter(|files| files.is_older_than(retention)) {
            let place = &files.place;
            match prune(files, &self.records).await {
                Ok(true) => tracing::info!(place, "deleted files that nobody used for as long as they are kept"),
                Ok(false) => {}
                Err(error) => tracing::error!(place, %error, "old files can't be deleted"),
            }
        }
        Ok(())
    }
}

/// Takes the place for files away that a launch made and in which nothing ever ran.
pub(super) async fn take_away_unused(record: &mut Record, store: &dyn WorkspaceStore) {
    match store.is_unused(&record.owner, &record.name, &record.id).await {
        Ok(true) => {}
        // Most launches that fail so early made none.
        Ok(false) | Err(_) => return,
    }
    let taken = async { store.take_away(&record.owner, &record.name).await?.await };
    match taken.await {
        Ok(()) => record.files = None,
        Err(error) => tracing::error!(sandbox = %record.id, %error, "an empty workspace can't be removed"),
    }
}

/// Deletes the files of a sandbox that ended, where they are not to outlive it.
pub(in super::super) async fn delete_if_ephemeral(ended: &mut Record, store: &dyn WorkspaceStore) {
    if !ended.ephemeral || ended.files.is_none() {
        return;
    }
    let deleted = async { store.take_away(&ended.owner, &ended.name).await?.await };
    match deleted.await {
        Ok(()) => ended.files = None,
        Err(error) => {
            tracing::error!(sandbox = %ended.id, %error, "the files of a sandbox that ended can't be deleted");
        }
    }
}
