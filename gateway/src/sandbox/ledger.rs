//! The sandboxes and files of a data directory as an operator's command sees them, whether or not a gateway runs.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::fleet::{ATTACHED, delete_if_ephemeral, kept_files, providers, prune};
use super::instance::{Instance, State, state_in};
use super::keys::KeyRing;
use super::records::Records;
use super::{FleetConfig, FleetError, KeptFiles, Owner, Record, Status};
use crate::database::Database;

const REASON: &str = "terminated by the operator";

/// The records and files of a data directory.
pub struct Ledger {
    config: FleetConfig,
    records: Records,
}

impl Ledger {
    /// That of a data directory, which has to be there.
    ///
    /// # Errors
    /// When it isn't there or can't be used.
    pub fn open(config: FleetConfig) -> Result<Self, FleetError> {
        let data_dir = config.data_dir.canonicalize().map_err(|error| {
            FleetError::Data(format!("there is no data directory {} ({error})", config.data_dir.display()))
        })?;
        let records = Records::new(Arc::new(Database::open(&data_dir)?));
        Ok(Self { config: FleetConfig { data_dir, ..config }, records })
    }

    /// Everyone's sandboxes, the newest of each name, oldest first. One whose gateway is gone says so.
    ///
    /// # Errors
    /// When the records can't be read.
    pub fn list(&self) -> Result<Vec<Record>, FleetError> {
        let mut records = self.records.all()?;
        for record in records.iter_mut().filter(|record| record.status.is_live()) {
            if !self.is_looked_after(record) {
                record.status_reason = Some("no gateway looks after it now; the next one to start does".to_owned());
            }
        }
        Ok(records)
    }

    /// Ends a live sandbox: the gateway that looks after it does it, or this command where there is none.
    ///
    /// # Errors
    /// When it isn't ended in time.
    pub async fn terminate(&self, record: &Record) -> Result<Record, FleetError> {
        self.records.wish(&record.id, Status::Terminated, REASON)?;
        if !self.is_looked_after(record) {
            let instance = Instance::enter(&self.config.data_dir)?;
            if self.records.take_over(&record.id, &record.instance, instance.id())? {
                return self.terminate_here(record.clone(), &instance).await;
            }
        }
        self.records.wait_for_end(record).await
    }

    fn is_looked_after(&self, record: &Record) -> bool {
        state_in(&self.config.data_dir, &record.instance) == State::Alive
    }

    async fn terminate_here(&self, mut record: Record, instance: &Instance) -> Result<Record, FleetError> {
        let providers = providers(&self.config, &self.records, instance.id())?;
        let provider = providers.into_iter().find(|provider| provider.variant() == record.variant);
        match &provider {
            Some(provider) => provider.terminate(&record.id).await?,
            None if record.variant == ATTACHED => {}
            None => return Err(FleetError::Elsewhere(record.name)),
        }
        record.status = Status::Terminated;
        record.status_reason = Some(REASON.to_owned());
        record.url = None;
        record.last_activity_at = Timestamp::now();
        if let Some(provider) = provider {
            delete_if_ephemeral(&mut record, provider.store().as_ref()).await;
        }
        self.records.put(&record)?;
        Ok(record)
    }

    /// The files that no sandbox uses.
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn kept_files(&self) -> Result<Vec<KeptFiles>, FleetError> {
        kept_files(&providers(&self.config, &self.records, "")?, &self.records).await
    }

    /// Deletes files unless a sandbox uses them by now; whether they were.
    ///
    /// # Errors
    /// When they can't be deleted.
    pub async fn prune(&self, files: &KeptFiles) -> Result<bool, FleetError> {
        prune(files, &self.records).await
    }

    /// Makes a new master key, for what is launched from the next start on; answers its id and the file.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn rotate_key(&self) -> Result<(String, PathBuf), FleetError> {
        let ring = KeyRing::open(&self.config.data_dir, self.config.master_key_file.as_deref())?;
        Ok((ring.rotate()?, ring.file().to_owned()))
    }
}

/// Whether a record is one's that is called so: `principal`, or `tenant/principal`.
pub fn is_of(owner: &Owner, principal: &str) -> bool {
    match principal.split_once('/') {
        Some((tenant, principal)) => owner.tenant == tenant && owner.principal == principal,
        None => owner.principal == principal,
    }
}
