//! The socket of one kernel: connected while somebody runs something and for a while after,
//! reconnected when it breaks under a run, and read all the time so that no backlog builds up.

mod line;
mod wires;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::mpsc;

use super::Cause;
use super::rest::Rest;
use super::wire::Message;
use line::Line;

/// One piece of code for the kernel, and who hears of it.
pub(super) struct Request {
    pub(super) id: String,
    pub(super) code: String,
    pub(super) notices: mpsc::UnboundedSender<Notice>,
}

/// What becomes of a [`Request`], in order.
#[derive(Debug)]
pub(super) enum Notice {
    /// The kernel works on other code; the request waits.
    Occupied,
    /// The kernel has it.
    Sent,
    /// It was taken back before the kernel had it.
    Withdrawn,
    /// The connection broke and is back: what the kernel said meanwhile may be lost.
    Reconnected,
    /// A message that answers it.
    Message(Box<Message>),
    /// Everything the kernel was sent before the last question has been answered.
    Answered,
    /// It is over: the kernel or the connection is gone.
    Gone(Cause),
}

enum Command {
    Submit(Request),
    Withdraw,
    Ask,
    Renew,
}

/// A handle on the socket's task, which ends with it.
#[derive(Debug)]
pub(super) struct Channel {
    commands: mpsc::UnboundedSender<Command>,
}

impl Channel {
    /// Starts to connect; sets `alive` once the kernel answers.
    pub(super) fn open(rest: Rest, kernel: String, alive: Arc<AtomicBool>) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        tokio::spawn(Line::new(rest, kernel, received, alive).attend());
        Self { commands }
    }

    /// Whether the task can still take a request.
    pub(super) fn is_open(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Hands over a request; the one before is forgotten.
    pub(super) fn submit(&self, request: Request) {
        self.command(Command::Submit(request));
    }

    /// Takes the request back, if the kernel doesn't have it yet.
    pub(super) fn withdraw(&self) {
        self.command(Command::Withdraw);
    }

    /// Asks the kernel something that it answers after everything it was sent before.
    pub(super) fn ask(&self) {
        self.command(Command::Ask);
    }

    /// Connects anew, to a kernel that was restarted.
    pub(super) fn renew(&self) {
        self.command(Command::Renew);
    }

    fn command(&self, command: Command) {
        // A task that has ended drops its request, and whoever made that sees it.
        let _ = self.commands.send(command);
    }
}

/// Why a socket was left.
enum Left {
    /// Nobody needs it.
    Unused,
    /// It broke, or the kernel behind it was replaced: the server knows, and keeps for us what comes meanwhile.
    Broken(String),
    /// The network went away: the server takes us to be there.
    Vanished(String),
    Renewed,
    Gone(Cause),
}

impl Left {
    fn failed(error: &tokio_tungstenite::tungstenite::Error) -> Self {
        match error {
            tokio_tungstenite::tungstenite::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                Self::Vanished(error.to_string())
            }
            error => Self::Broken(error.to_string()),
        }
    }
}
