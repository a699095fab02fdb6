//! What is written down of a launch or an attachment before anything is made.

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

use super::super::records::Refused;
use super::super::{FleetError, LaunchRequest, Owner, Progress, Record, SandboxId, Status};
use super::{ATTACHED, Fleet};

/// One launch: who wants what, who listens, and what takes it back.
pub(super) struct Asked {
    pub(super) owner: Owner,
    pub(super) request: LaunchRequest,
    pub(super) progress: Progress,
    pub(super) cancel: CancellationToken,
}

/// What is written down before anything is made.
pub(super) struct Intent<'a> {
    pub(super) variant: &'static str,
    /// A caller's secret, which is sealed first.
    pub(super) secret: Option<&'a SecretString>,
}

impl Fleet {
    /// Writes the intent down if there is room; nothing exists yet.
    pub(super) fn intend(&self, asked: &Asked, intent: &Intent<'_>) -> Result<Record, FleetError> {
        let Asked { owner, request, .. } = asked;
        if self.stop.is_cancelled() {
            return Err(FleetError::Stopping);
        }
        let (now, key, lifetimes) = (Timestamp::now(), self.keys.newest()?, &self.config.lifetimes);
        let is_attached = intent.variant == ATTACHED;
        let ttl = lifetimes.ttl(request).filter(|_| !is_attached).and_then(|ttl| SignedDuration::try_from(ttl).ok());
        let record = Record {
            id: SandboxId::random(),
            owner: owner.clone(),
            name: request.name.clone(),
            variant: intent.variant.to_owned(),
            generation: 1,
            instance: self.instance.id().to_owned(),
            status: Status::Pending,
            status_reason: None,
            url: None,
            image: request.image.clone(),
            environment: request.environment.clone(),
            gpu: request.gpu.clone(),
            created_at: now,
            last_activity_at: now,
            expires_at: ttl.and_then(|ttl| now.checked_add(ttl).ok()),
            digest: key.digest(&request.canonical(self.default_variant())),
            files: (!is_attached).then(|| self.place(intent.variant, owner, &request.name)).flatten(),
            ephemeral: !is_attached && (self.config.ephemeral || !self.keeps_files(intent.variant)),
            backend: None,
            idle_seconds: (!is_attached).then(|| lifetimes.idle(request).as_secs()),
            key_id: key.id().to_owned(),
            wish: Status::Running,
            wish_reason: None,
        };
        let secret = intent.secret.map(|secret| self.sealed(&record, secret)).transpose()?;
        let intended = self.records.intend(&record, secret.as_deref(), self.config.capacity);
        intended.map(|()| record).map_err(|refused| self.refused(refused, &request.name))
    }

    fn refused(&self, refused: Refused, name: &str) -> FleetError {
        match refused {
            Refused::Principal(names) => {
                FleetError::Limit { limit: self.config.capacity.per_principal, names: names.join(", ") }
            }
            Refused::InAll => FleetError::Full(self.config.capacity.in_all),
            Refused::Name => FleetError::Elsewhere(name.to_owned()),
            Refused::Database(error) => error.into(),
        }
    }

    /// A caller's secret as it is stored.
    fn sealed(&self, record: &Record, secret: &SecretString) -> Result<Vec<u8>, FleetError> {
        let key = self.keys.key(&record.key_id).ok_or_else(|| FleetError::Data("the master key is gone".to_owned()))?;
        Ok(key.seal(record.id.as_str(), secret.expose_secret())?)
    }
}
