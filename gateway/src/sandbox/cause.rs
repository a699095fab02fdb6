//! Why a sandbox ends.

use std::time::Duration;

use jiff::Timestamp;

use super::{Record, Status};

/// Why a sandbox ends.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// Its owner terminated it.
    Owner,
    /// Its time was over (`ttl_seconds`).
    Expired(Timestamp),
    /// Nobody used it for that long.
    Idle(Duration),
    /// Its gateway was told to stop.
    Stopped,
    /// It ended on its own, or was killed; how, if that is known.
    Lost(String),
    /// Its gateway died before it was ready.
    Unfinished,
    /// It was wished before, and is carried out now.
    Wished(Status, String),
}

impl Cause {
    /// The wish that a record holds, if it is to end.
    pub(super) fn wished(record: &Record) -> Option<Self> {
        let reason = || record.wish_reason.clone().unwrap_or_else(|| Self::Owner.reason());
        (record.wish != Status::Running).then(|| Self::Wished(record.wish, reason()))
    }

    /// The status that it leaves.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Lost(_) => Status::Lost,
            Self::Unfinished => Status::Failed,
            Self::Wished(status, _) => *status,
            _ => Status::Terminated,
        }
    }

    /// What callers read after "is gone".
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Owner => "terminated by its owner".to_owned(),
            Self::Expired(at) => format!("it expired at {at:.0} (ttl_seconds)"),
            Self::Idle(limit) => format!("it was not used for {} s", limit.as_secs()),
            Self::Stopped => "the gateway was stopped".to_owned(),
            Self::Unfinished => "its gateway ended before it was ready".to_owned(),
            Self::Lost(reason) | Self::Wished(_, reason) => reason.clone(),
        }
    }

    /// The word in the audit trail.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Expired(_) => "expired",
            Self::Idle(_) => "idle",
            Self::Stopped => "stopped",
            Self::Lost(_) => "lost",
            Self::Unfinished => "unfinished",
            Self::Wished(..) => "wished",
        }
    }
}
