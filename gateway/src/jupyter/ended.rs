//! How a run ended, and why it did before its code was through.

use std::fmt;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// In one word.
    pub status: RunStatus,
    /// The kernel's count, when it gave one.
    pub execution_count: Option<i64>,
    /// From its start in the kernel to its end; 0 when it never started.
    pub seconds: f64,
    /// Why it ended before its code did, or never began.
    pub cause: Option<Cause>,
    /// The name and value of the exception that ended it.
    pub exception: Option<(String, String)>,
    /// The code asked the kernel to end, which is restarted therefore.
    pub asked_exit: bool,
    /// The kernel is another one than at the last run: what that left is lost.
    pub state_lost: bool,
}

/// How a run ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// The code came to its end.
    Ok,
    /// The code raised an exception.
    Error,
    /// Its time was over.
    Timeout,
    /// It was cancelled.
    Interrupted,
    /// The kernel died, was deleted or was restarted by somebody.
    Died,
    /// It was not run, or nothing can be said about its end.
    Aborted,
}

/// Why a run ended before its code did, or never began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel's process ended and another took its place: its state is lost.
    KernelRestarted,
    /// The same, when the code was not seen to begin.
    KernelWasRestarted,
    /// The kernel has the code and didn't begin it in time.
    NotBegun,
    /// The kernel's process ended for good.
    KernelDead,
    /// The kernel's process ends each time before it ever answers.
    KernelStillborn,
    /// The kernel is not on the server any more.
    KernelDeleted,
    /// The socket to the kernel failed, while the server still answers.
    ConnectionLost(String),
    /// The server doesn't answer.
    ServerUnreachable(String),
    /// The server doesn't take the token.
    Unauthorized,
    /// The interrupt was ignored: the code still runs. For a run that never began: other code does.
    StillRunning,
    /// The caller cancelled it while it ran.
    Cancelled,
    /// The caller cancelled it before it began.
    CancelledInQueue,
    /// [`Kernel::restart`] ended it.
    RestartedByCaller,
}

impl Ended {
    /// Whether the run was given up since its server doesn't answer: nothing else should wait for it.
    pub fn server_is_silent(&self) -> bool {
        matches!(self.cause, Some(Cause::ServerUnreachable(_)))
    }

    /// Whether its code runs on all the same.
    pub fn goes_on(&self) -> bool {
        matches!(self.cause, Some(Cause::StillRunning)) && self.status != RunStatus::Aborted
    }

    pub(super) fn without_reply(status: RunStatus, seconds: f64, cause: Option<Cause>) -> Self {
        Self { status, execution_count: None, seconds, cause, exception: None, asked_exit: false, state_lost: false }
    }
}

impl RunStatus {
    /// As answers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::Died => "died",
            Self::Aborted => "aborted",
        }
    }
}

impl Cause {
    /// The status of a run that this ended.
    pub(super) fn status(&self) -> RunStatus {
        match self {
            Self::KernelRestarted
            | Self::KernelWasRestarted
            | Self::KernelDead
            | Self::KernelStillborn
            | Self::KernelDeleted => RunStatus::Died,
            Self::Cancelled => RunStatus::Interrupted,
            _ => RunStatus::Aborted,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::KernelRestarted => "the kernel died and was restarted, its state is lost",
            Self::KernelWasRestarted => "the kernel died before this was seen to begin",
            Self::NotBegun => "the kernel did not begin the code",
            Self::KernelDead => "the kernel is dead",
            Self::KernelStillborn => "the kernel ends as soon as it is started",
            Self::KernelDeleted => "the kernel was shut down",
            Self::ConnectionLost(reason) => {
                return write!(formatter, "the connection to the kernel was lost: {reason}");
            }
            Self::ServerUnreachable(reason) => {
                return write!(formatter, "the Jupyter server can't be reached: {reason}");
            }
            Self::Unauthorized => "the Jupyter server refused the token",
            Self::StillRunning => "the kernel is still running code",
            Self::Cancelled => "it was cancelled",
            Self::CancelledInQueue => "it was cancelled before it began",
            Self::RestartedByCaller => "the kernel was restarted",
        };
        formatter.write_str(words)
    }
}
