//! From the errors of the floors below to the failures that a caller reads.

use std::path::Path;

use crate::answer::{Code, Failure};
use crate::jupyter::JupyterError;
use crate::sandbox::{ATTACHED, FleetError, Record, Sandbox};

/// What a Jupyter server's refusal means to a caller who was working in `sandbox`.
///
/// A server that can't be reached because its sandbox ended is a sandbox that is gone.
pub fn jupyter_failure(sandbox: &Sandbox, error: &JupyterError) -> Failure {
    if matches!(error, JupyterError::Unreachable { .. })
        && let Err(reason) = sandbox.alive()
    {
        return gone(&sandbox.record(), &reason);
    }
    Failure::new(code(error), error.to_string())
}

/// The failure of a call to a sandbox that ended, with what became of its files.
pub(super) fn gone(sandbox: &Record, reason: &str) -> Failure {
    let name = &sandbox.name;
    let next = match &sandbox.files {
        _ if sandbox.variant == ATTACHED => {
            "The server itself and its files are as they were: call connect_to_jupyter to attach it again.".to_owned()
        }
        // Where they are a folder, somebody may have removed it.
        Some(files) if !sandbox.ephemeral && (!files.starts_with('/') || Path::new(files).exists()) => {
            format!("Its files are kept: call launch_sandbox with sandbox_name '{name}' to go on with them.")
        }
        _ => format!("Its files were deleted: call launch_sandbox with sandbox_name '{name}' to begin anew."),
    };
    Failure::new(Code::SandboxGone, format!("Sandbox '{name}' is gone: {reason}. {next}"))
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
