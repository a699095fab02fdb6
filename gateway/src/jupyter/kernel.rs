//! One kernel, and the queue in front of it.
//!
//! Runs go one at a time, in the order they came, and each ends exactly once.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, RwLock, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::channel::Channel;
use super::rest::Rest;
use super::watch::{Observation, Watch};
use super::{Cause, Ended, JupyterError, RunStatus, kernels, run};

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

/// One kernel of a server.
#[derive(Debug)]
pub struct Kernel {
    id: String,
    pub(super) rest: Rest,
    turns: Arc<tokio::sync::Mutex<()>>,
    runs: AtomicUsize,
    alive: Arc<AtomicBool>,
    /// The count of the last run, 0 where there is none.
    last_count: AtomicI64,
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
            turns: Arc::default(),
            runs: AtomicUsize::new(0),
            alive: Arc::default(),
            last_count: AtomicI64::new(0),
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
        let mut ended = run::perform(self, &run, &mut reporter).await;
        self.note_count(&run, &mut ended);
        let asked_exit = ended.asked_exit;
        reporter.end(ended);
        if asked_exit && let Err(error) = self.restart().await {
            // It ends by itself in a moment.
            tracing::debug!(kernel = self.id, %error, "a kernel that was asked to end can't be restarted");
        }
    }

    /// Kernels count their runs: one that doesn't count on from the last run is a new one.
    fn note_count(&self, run: &Run, ended: &mut Ended) {
        // IPython counts no blank code.
        let counts = !run.code.trim().is_empty();
        if matches!(ended.cause, Some(Cause::KernelRestarted | Cause::KernelWasRestarted | Cause::RestartedByCaller)) {
            self.last_count.store(0, Ordering::Relaxed);
        } else if let Some(count) = ended.execution_count.filter(|_| counts) {
            let last = self.last_count.swap(count, Ordering::Relaxed);
            ended.state_lost = count <= last;
        }
    }

    /// Waits until it works on nothing any more, or is gone.
    pub async fn settled(&self) {
        let mut watch = Watch::new(self.rest.clone(), self.id.clone());
        while let Observation::State(state) = watch.next().await {
            if state == "idle" {
                return;
            }
        }
    }

    /// Restarts it: the run under way ends, those that wait go on afterwards.
    pub async fn restart(&self) -> Result<(), JupyterError> {
        let _gate = self.gate.write().await;
        self.restarts.send_modify(|restarts| *restarts += 1);
        self.last_count.store(0, Ordering::Relaxed);
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
        let open = || Channel::open(self.rest.clone(), self.id.clone(), Arc::clone(&self.alive));
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
