//! Which kernel a notebook runs on.

use serde::{Deserialize, Serialize};

use crate::sandbox::SandboxId;

/// The kernel that a notebook runs on.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Binding {
    /// Where it runs.
    pub(super) sandbox: SandboxId,
    /// Its id.
    pub(super) kernel: String,
    /// The session that ties it to the notebook, if there is one.
    pub(super) session: Option<String>,
    /// Cellgate started it, so it may end it.
    pub(super) ours: bool,
}
