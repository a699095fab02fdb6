//! What is written down of a sandbox.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Owner, SandboxId};

/// Where a sandbox is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Written down, nothing made yet.
    Pending,
    /// Being made.
    Starting,
    /// Its Jupyter answers.
    Running,
    /// Being ended.
    Terminating,
    /// Ended as asked.
    Terminated,
    /// It never got ready.
    Failed,
    /// It ended on its own, or with its gateway.
    Lost,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Starting, Self::Running, Self::Terminating, Self::Terminated, Self::Failed, Self::Lost];

    /// The word that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }

    pub(super) fn from_record(word: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == word).unwrap_or(Self::Lost)
    }

    /// Whether something of it may exist.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Starting | Self::Running | Self::Terminating)
    }
}

/// A sandbox as it is written down. No secret is in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its id.
    pub id: SandboxId,
    /// Whose it is.
    pub owner: Owner,
    /// Its name, unique among its owner's live sandboxes.
    pub name: String,
    /// Its provider.
    pub variant: String,
    /// Counts what was made under this id; part of what its token is derived from.
    pub generation: u64,
    /// The gateway instance that looks after it.
    pub instance: String,
    /// Where it is in its life.
    pub status: Status,
    /// Why it is there, when that isn't plain.
    pub status_reason: Option<String>,
    /// Where its Jupyter answers, without a token.
    pub url: Option<String>,
    /// Its image, for a provider that has images.
    pub image: Option<String>,
    /// The operator's profile it was launched from.
    pub environment: Option<String>,
    /// The GPU it has.
    pub gpu: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_activity_at: Timestamp,
    /// When it ends on its own.
    pub expires_at: Option<Timestamp>,
    /// A keyed hash of the request, for "the same again?".
    pub digest: String,
    /// Where its working directory is, if it outlives the sandbox.
    pub files: Option<String>,
    /// Whether its files end with it.
    pub ephemeral: bool,
    /// By what its provider finds it again.
    pub backend: Option<String>,
    /// Ends it when it wasn't used for this many seconds.
    pub idle_seconds: Option<u64>,
    /// The master key that its token and digest are derived from.
    pub key_id: String,
    /// The status that it is to have: running, or how it is to end.
    pub wish: Status,
    /// Why it is to end.
    pub wish_reason: Option<String>,
}
