//! Why a sandbox could not be had.

use super::provider::ProviderError;
use crate::answer::Code;
use crate::database::DatabaseError;
use crate::jupyter::JupyterError;

/// A refusal of the fleet. Each reads as one sentence that says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The name can't be one.
    #[error(
        "'{0}' can't be a sandbox's name: use 1 to 100 letters, digits, '.', '_', '-' or ':', starting with a letter or digit, and not the form of an id (s-...)."
    )]
    BadName(String),
    /// Another launch of that name asked for something else.
    #[error(
        "Sandbox '{0}' runs already and was launched with other arguments: use it with use_sandbox, terminate it first, or choose another name."
    )]
    NameTaken(String),
    /// Another gateway on this data directory is at it.
    #[error(
        "Sandbox '{0}' is being launched or ended by another gateway on this machine: try again in a moment, or choose another name."
    )]
    Elsewhere(String),
    /// It can't be told whether an earlier one of that name runs.
    #[error(
        "An earlier sandbox '{name}' was left as it is ({why}): end it with terminate_sandbox, or choose another name."
    )]
    LeftAlone {
        /// The name.
        name: String,
        /// Why it can't be told.
        why: String,
    },
    /// The owner has as many as it may.
    #[error("You have {limit} sandboxes running ({names}), which is the limit: terminate one first.")]
    Limit {
        /// How many are allowed.
        limit: usize,
        /// Those that run.
        names: String,
    },
    /// There are as many as the operator allows in all.
    #[error(
        "The limit of sandboxes for everyone together ({0}) is reached: terminate one of yours, or try again when others have ended."
    )]
    Full(usize),
    /// A longer life than the operator allows.
    #[error("{wish} {asked} is more than the {ceiling} that are allowed here: ask for at most that.")]
    TooLong {
        /// The argument's name.
        wish: &'static str,
        /// What was asked for, in seconds.
        asked: u64,
        /// The most, in seconds.
        ceiling: u64,
    },
    /// The server is not among those that callers may attach.
    #[error(
        "This server may not be attached here. The operator allows: {0}. Call launch_sandbox for a sandbox of your own."
    )]
    NotAttachable(String),
    /// The server's name has no address.
    #[error("The server's name '{name}' has no address ({reason}): check that it is right.")]
    Unresolved {
        /// The name.
        name: String,
        /// What the resolver said.
        reason: String,
    },
    /// The provider refused or failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// It was made, and taken down again since it did not get ready in time.
    #[error(
        "Sandbox '{name}' was not ready after {seconds} s and was taken down again: {reason}. Try again, with a larger timeout if the machine is slow."
    )]
    NotReady {
        /// Its name.
        name: String,
        /// The time limit.
        seconds: u64,
        /// What was missing at the end.
        reason: String,
    },
    /// The server that was to be attached can't be used.
    #[error("{0}")]
    Attach(#[from] JupyterError),
    /// There is no such sandbox of this caller.
    #[error("You have no sandbox '{0}'; list_sandboxes shows those you have.")]
    NotFound(String),
    /// The gateway is being stopped.
    #[error("The gateway is stopping, so nothing is launched any more; call again when it is back.")]
    Stopping,
    /// The data directory can't be used.
    #[error(
        "Cellgate's data directory can't be used: {0}. Look at its disk and permissions, or choose another with --data-dir."
    )]
    Data(String),
}

impl FleetError {
    /// The code that callers get.
    pub fn code(&self) -> Code {
        match self {
            Self::BadName(_) | Self::TooLong { .. } | Self::Attach(JupyterError::InvalidUrl(_)) => {
                Code::ArgumentsInvalid
            }
            Self::NameTaken(_) | Self::Elsewhere(_) | Self::LeftAlone { .. } => Code::SandboxNameTaken,
            Self::Limit { .. } | Self::Full(_) => Code::SandboxLimit,
            Self::NotAttachable(_) => Code::Forbidden,
            Self::Provider(error) => error.code(),
            Self::NotReady { .. } => Code::SandboxLaunchFailed,
            Self::Attach(JupyterError::Unauthorized { .. }) => Code::JupyterUnauthorized,
            Self::Attach(_) | Self::Unresolved { .. } => Code::JupyterUnreachable,
            Self::NotFound(_) => Code::SandboxNotFound,
            Self::Stopping => Code::Overloaded,
            Self::Data(_) => Code::Internal,
        }
    }
}

impl From<rusqlite::Error> for FleetError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Data(error.to_string())
    }
}

impl From<DatabaseError> for FleetError {
    fn from(error: DatabaseError) -> Self {
        Self::Data(error.to_string())
    }
}

impl From<std::io::Error> for FleetError {
    fn from(error: std::io::Error) -> Self {
        Self::Data(error.to_string())
    }
}
