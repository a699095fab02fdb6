//! What can go wrong with a Jupyter server, one variant for each thing a caller can do about it.

use super::path::PathError;

/// Why a Jupyter server didn't do what it was asked. The messages never hold a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JupyterError {
    /// Nothing answers there, or not in time.
    #[error("Jupyter at {host} can't be reached ({reason}): check that it runs and that its address is right.")]
    Unreachable {
        /// Host and port.
        host: String,
        /// What the network said.
        reason: String,
    },
    /// The token is missing or wrong.
    #[error("Jupyter at {host} refused the token: pass the token that this server was started with.")]
    Unauthorized {
        /// Host and port.
        host: String,
    },
    /// The server has no such file, kernel or session.
    #[error("Jupyter has no {what}.")]
    NotFound {
        /// What was asked for, like `file 'a.ipynb'`.
        what: String,
    },
    /// Something answers, but not as Jupyter does.
    #[error("What answers at {url} is not a Jupyter server ({reason}): check the address and its path prefix.")]
    NotAJupyter {
        /// The base URL, without a token.
        url: String,
        /// What it answered.
        reason: String,
    },
    /// REST works, but the kernel's websocket was not let through.
    #[error(
        "{host} refused the kernel's websocket with HTTP {status}: a proxy in front of Jupyter has to let websocket upgrades through."
    )]
    WebSocketRefused {
        /// Host and port.
        host: String,
        /// The HTTP status of the refusal.
        status: u16,
    },
    /// Jupyter said no, for a reason of its own.
    #[error("Jupyter refused the request with HTTP {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Jupyter's own words, shortened.
        message: String,
    },
    /// The request or the answer is larger than allowed.
    #[error(
        "That is too large to send to or to read from Jupyter: work on a smaller file, or read it with code in a kernel."
    )]
    TooLarge,
    /// The server's disk or quota is used up.
    #[error("The disk of the Jupyter server is full ({message}): delete files there, then try again.")]
    DiskFull {
        /// Jupyter's own words, shortened.
        message: String,
    },
    /// Jupyter answered something that can't be understood.
    #[error("Jupyter's answer can't be understood: {0}.")]
    Malformed(String),
    /// The path can't be one of the server's.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The server's URL or token can't be used.
    #[error("{0}")]
    InvalidUrl(String),
}
