//! What makes and ends sandboxes. Names, readiness, limits, records and roll-back are the fleet's.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use secrecy::SecretString;

use super::{LaunchRequest, Owner, Progress, Record, SandboxId, WorkspaceStore};
use crate::answer::Code;

/// A sandbox to be made.
pub struct Plan {
    /// Its id: everything that is made carries it.
    pub id: SandboxId,
    /// The gateway instance that looks after it; everything that is made carries it too.
    pub instance: String,
    /// Counts what was made under this id.
    pub generation: u64,
    /// The path that its Jupyter is to serve under, `/sandboxes/<id>/`.
    pub base_url: String,
    /// The token that its Jupyter is to ask for.
    pub token: SecretString,
    /// What is written down of it as JSON, for a provider that keeps it as well.
    pub record: String,
    /// Whose it is.
    pub owner: Owner,
    /// What was asked for; its name is the one by which its files are found again.
    pub request: LaunchRequest,
    /// How long it may stay unused; it ends itself some time later when no gateway does.
    pub idle: Option<Duration>,
    /// When it is to end; it ends itself some time later when no gateway does.
    pub expires_at: Option<Timestamp>,
}

/// Where a sandbox's Jupyter answers, soon.
pub struct Endpoint {
    /// Its URL, without the token.
    pub url: String,
    /// By what the provider finds the sandbox again, after a restart of the gateway.
    pub backend: Option<String>,
    /// What image it runs, where there are images.
    pub image: Option<String>,
}

/// What there is of a sandbox that another gateway made.
pub enum Found {
    /// It runs as far as is known, and is looked after from here from now on.
    Here,
    /// The same, and it answers at this URL now.
    At(String),
    /// It ended; why, if that is known.
    Gone(Option<String>),
    /// Something is there that may be another's: it is left as it is.
    Unclear(String),
    /// Nothing can be told now; it is looked at again.
    Unknown,
}

/// Why a provider could not do it.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// It can't run on this machine, or not now.
    #[error("No sandbox can be launched here now: {0}")]
    Unavailable(String),
    /// What it was to be made of can't be had.
    #[error("{0}")]
    Missing(String),
    /// A wish that it can't keep.
    #[error("The {variant} provider can't keep the wish '{wish}': leave it out, or choose another variant.")]
    Unsupported {
        /// The provider.
        variant: &'static str,
        /// The argument's name.
        wish: &'static str,
    },
    /// A wish that can't be kept here; which, and what to do.
    #[error("{0}")]
    Refused(String),
    /// Something that the operator doesn't allow.
    #[error("{0}")]
    Forbidden(String),
    /// An argument that no provider takes.
    #[error("{0}")]
    Invalid(String),
    /// There is no provider of that name here.
    #[error("There is no variant '{variant}' here; there are {known}.")]
    Unknown {
        /// What was asked for.
        variant: String,
        /// What there is.
        known: String,
    },
    /// It tried and failed; what was made is taken down again.
    #[error("The sandbox could not be launched and was taken down again: {0}")]
    Failed(String),
    /// Something of a sandbox that is to end is left.
    #[error("The sandbox could not be ended: {0}. Call terminate_sandbox again.")]
    NotEnded(String),
}

impl ProviderError {
    /// The same, as the reason why a sandbox could not be ended.
    pub(super) fn not_ended(self) -> Self {
        match self {
            Self::Unavailable(reason) => Self::NotEnded(reason),
            error => Self::NotEnded(error.to_string()),
        }
    }

    /// The code that callers get.
    pub fn code(&self) -> Code {
        match self {
            Self::Unavailable(_) | Self::Missing(_) => Code::ProviderUnavailable,
            Self::Invalid(_) => Code::ArgumentsInvalid,
            Self::Forbidden(_) => Code::Forbidden,
            Self::Unsupported { .. } | Self::Refused(_) | Self::Unknown { .. } => Code::ProviderUnsupported,
            Self::Failed(_) => Code::SandboxLaunchFailed,
            Self::NotEnded(_) => Code::Internal,
        }
    }
}

/// Makes and ends sandboxes of one kind.
pub trait SandboxProvider: Send + Sync {
    /// What callers call it.
    fn variant(&self) -> &'static str;

    /// Refuses a wish that it can't keep, by name.
    fn accept(&self, request: &LaunchRequest) -> Result<(), ProviderError>;

    /// What has to be done before anybody is answered. Quick, and no failure: what is missing shows later.
    fn begin(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The records of what there is, where the provider keeps them too: some may be lost here. Unknown when it can't tell now.
    fn recover(&self) -> BoxFuture<'_, Option<Vec<Record>>> {
        Box::pin(async { Some(Vec::new()) })
    }

    /// Makes ready what a launch needs (an environment, an image); fast once that is there.
    fn prepare<'a>(
        &'a self,
        request: &'a LaunchRequest,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Starts a sandbox; its Jupyter need not answer yet.
    fn launch<'a>(&'a self, plan: &'a Plan, progress: &'a Progress) -> BoxFuture<'a, Result<Endpoint, ProviderError>>;

    /// Looks after a sandbox that a dead gateway made, if it runs still. Quick: what does not
    /// answer at once is gone on with.
    fn adopt<'a>(&'a self, id: &'a SandboxId, backend: Option<&'a str>) -> BoxFuture<'a, Found>;

    /// Whether anything of a sandbox runs, or may run, whoever made it.
    fn runs<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, bool>;

    /// Why a sandbox that was launched is no longer there, if so.
    fn ended(&self, id: &SandboxId) -> Option<String>;

    /// Whether something in it was just killed for want of memory, as far as that can be told within a second or so.
    fn ran_out_of_memory<'a>(&'a self, _: &'a SandboxId) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// What its Jupyter last said, for an error.
    fn last_words<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, String>;

    /// Ends a sandbox and waits until nothing of it is left. Ending what isn't there is fine.
    fn terminate<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// The ids of the sandboxes that exist, by their marks, with the instance that made each.
    fn list(&self) -> BoxFuture<'_, Result<Vec<(SandboxId, String)>, ProviderError>>;

    /// Where the files of sandboxes are.
    fn store(&self) -> Arc<dyn WorkspaceStore>;

    /// Whether its sandboxes go on when their gateway is told to stop.
    fn outlives_a_stop(&self) -> bool {
        false
    }

    /// Whether it could launch now; the reason when not.
    fn ready(&self) -> Result<(), String>;

    /// How long it may take to end one.
    fn grace(&self) -> Duration {
        Duration::from_secs(10)
    }
}
