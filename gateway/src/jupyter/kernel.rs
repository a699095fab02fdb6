//! One kernel, and the queue in front of it.
//!
//! Runs go one at a time, in the order they came, and each ends exactly once.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, RwLock, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::channel::Channel;
use super::rest::Rest;
use super::{JupyterError, kernels, run};

/// Code to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The source.
    pub code: String,
    /// How long it may run, from the moment the kernel starts it.
    pub timeout: Duration,
    /// Interrupts it, or takes it out of the queue.
    pub cancel: CancellationToken,
}

/// What becomes of a [`Run`]; the last one is always, and only once, [`Event::Ended`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It waits behind others, or for code that somebody else runs.
    Queued {
        /// How many go before it.
        ahead: usize,
    },
    /// The kernel works on it.
    Started,
    /// It put something out.
    Output {
        /// `stream`, `display_data`, `execute_result`, `error`, `clear_output` or `update_display_data`.
        message_type: String,
        /// The message's content.
        content: Value,
    },
    /// It is over.
    Ended(Ended),
}

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

/// One kernel of a server.
#[derive(Debug)]
pub struct Kernel {
    id: String,
    pub(super) rest: Rest,
    session: String,
    turns: Arc<tokio::sync::Mutex<()>>,
    runs: AtomicUsize,
    alive: Arc<AtomicBool>,
    channel: Mutex<Option<Channel>>,
    /// Held for writing during a restart, in which nothing may begin.
    pub(super) gate: RwLock<()>,
    pub(super) restarts: watch::Sender<u64>,
}

impl Kernel {
    pub(super) fn new(rest: Rest, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            rest,
            session: Uuid::new_v4().to_string(),
            turns: Arc::default(),
            runs: AtomicUsize::new(0),
            alive: Arc::default(),
            channel: Mutex::default(),
            gate: RwLock::default(),
            restarts: watch::Sender::new(0),
        }
    }

    /// Its id on the server.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many runs wait behind the one that has its turn.
    pub fn queue_length(&self) -> usize {
        self.runs.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Whether a socket of ours is open to it, which the server counts among its connections.
    pub fn is_connected(&self) -> bool {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Channel::is_open)
    }

    /// Whether it was ever more than starting, as far as is known here.
    pub(super) fn was_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// It is more than starting.
    pub(super) fn note_alive(&self) {
        self.alive.store(true, Ordering::Relaxed);
    }

    /// Queues code. What becomes of it comes by the receiver; dropping that cancels nothing.
    pub fn execute(self: &Arc<Self>, run: Run) -> mpsc::UnboundedReceiver<Event> {
        let (events, receiver) = mpsc::unbounded_channel();
        let ahead = self.runs.fetch_add(1, Ordering::Relaxed);
        let reporter = Reporter { kernel: Arc::clone(self), events, started: None, ended: false };
        if ahead > 0 {
            reporter.tell(Event::Queued { ahead });
        }
        let mut turn = Box::pin(Arc::clone(&self.turns).lock_owned());
        // The first poll takes the place in the queue, here and not when the task gets to it.
        let granted = turn.as_mut().now_or_never();
        let kernel = Arc::clone(self);
        tokio::spawn(async move { kernel.take_turn(run, reporter, granted, turn).await });
        receiver
    }

    async fn take_turn(
        &self,
        run: Run,
        mut reporter: Reporter,
        granted: Option<OwnedMutexGuard<()>>,
        turn: impl Future<Output = OwnedMutexGuard<()>>,
    ) {
        let turn = async {
            match granted {
                Some(turn) => turn,
                None => turn.await,
            }
        };
        let _turn = tokio::select! {
            biased;
            () = run.cancel.cancelled() => return reporter.aborted(Cause::CancelledInQueue),
            turn = turn => turn,
        };
        let ended = run::perform(self, &run, &mut reporter).await;
        reporter.end(ended);
    }

    /// Restarts it: the run under way ends, those that wait go on afterwards.
    pub async fn restart(&self) -> Result<(), JupyterError> {
        let _gate = self.gate.write().await;
        self.restarts.send_modify(|restarts| *restarts += 1);
        let restarted = kernels::restart(&self.rest, &self.id).await;
        if let Some(channel) = &*self.channel.lock().unwrap_or_else(PoisonError::into_inner) {
            channel.renew();
        }
        restarted
    }

    /// Does something with the open channel, opened first when it isn't.
    pub(super) fn with_channel<T>(&self, action: impl FnOnce(&Channel) -> T) -> T {
        let mut slot = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|channel| !channel.is_open()) {
            *slot = None;
        }
        let (id, session) = (self.id.clone(), self.session.clone());
        let open = || Channel::open(self.rest.clone(), id, session, Arc::clone(&self.alive));
        action(slot.get_or_insert_with(open))
    }
}

/// Tells the caller what becomes of its run. Dropped before its end, it tells that too.
pub(super) struct Reporter {
    kernel: Arc<Kernel>,
    events: mpsc::UnboundedSender<Event>,
    started: Option<Instant>,
    ended: bool,
}

impl Reporter {
    pub(super) fn tell(&self, event: Event) {
        // A caller that went away needs no events.
        let _ = self.events.send(event);
    }

    /// Tells the start, and gives its time.
    pub(super) fn start(&mut self) -> Instant {
        if self.started.is_none() {
            self.tell(Event::Started);
        }
        *self.started.get_or_insert_with(Instant::now)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.started.map_or(0.0, |started| started.elapsed().as_secs_f64())
    }

    fn aborted(self, cause: Cause) {
        let ended = Ended::without_reply(RunStatus::Aborted, self.seconds(), Some(cause));
        self.end(ended);
    }

    fn end(mut self, ended: Ended) {
        self.ended = true;
        self.tell(Event::Ended(ended));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.kernel.runs.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            let cause = Cause::ConnectionLost("the gateway is stopping".to_owned());
            let _ =
                self.events.send(Event::Ended(Ended::without_reply(RunStatus::Aborted, self.seconds(), Some(cause))));
        }
    }
}

impl Ended {
    /// Whether the run was given up since its server doesn't answer: nothing else should wait for it.
    pub fn server_is_silent(&self) -> bool {
        matches!(self.cause, Some(Cause::ServerUnreachable(_)))
    }

    pub(super) fn without_reply(status: RunStatus, seconds: f64, cause: Option<Cause>) -> Self {
        Self { status, execution_count: None, seconds, cause, exception: None }
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
            Self::KernelRestarted | Self::KernelDead | Self::KernelStillborn | Self::KernelDeleted => RunStatus::Died,
            Self::Cancelled => RunStatus::Interrupted,
            _ => RunStatus::Aborted,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::KernelRestarted => "the kernel died and was restarted, its state is lost",
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
