//! From the errors of the floors below to the failures that a caller reads.

use crate::answer::{Code, Failure};
use crate::jupyter::JupyterError;
use crate::sandbox::{FleetError, Sandbox};

/// What a Jupyter server's refusal means to a caller who was working in `sandbox`.
///
/// A server that can't be reached because its sandbox ended is a sandbox that is gone.
pub fn jupyter_failure(sandbox: &Sandbox, error: &JupyterError) -> Failure {
    if matches!(error, JupyterError::Unreachable { .. })
        && let Err(reason) = sandbox.alive()
    {
        return gone(sandbox.name(), &reason);
    }
    Failure::new(code(error), error.to_string())
}

/// The failure of a call to a sandbox that ended.
pub(super) fn gone(name: &str, reason: &str) -> Failure {
    let message = format!(
        "Sandbox '{name}' is gone: {reason}. Its files are kept: call launch_sandbox with sandbox_name '{name}' to go on with them."
    );
    Failure::new(Code::SandboxGone, message)
}

fn code(error: &JupyterError) -> Code {
    match error {
        JupyterError::Unauthorized { .. } => Code::JupyterUnauthorized,
        JupyterError::NotFound { .. } => Code::FileNotFound,
        JupyterError::Path(_) => Code::PathInvalid,
        JupyterError::InvalidUrl(_) => Code::ArgumentsInvalid,
        JupyterError::DiskFull { .. } | JupyterError::TooLarge => Code::Overloaded,
        JupyterError::Refused { .. } | JupyterError::Malformed { .. } => Code::Internal,
        _ => Code::JupyterUnreachable,
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
