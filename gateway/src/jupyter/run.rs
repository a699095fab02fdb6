//! One run on its kernel, from its turn in the queue to its end.

use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::channel::{Channel, Notice, Request};
use super::heard::{Heard, Told, mark};
use super::kernel::Reporter;
use super::watch::{Observation, Watch};
use super::wire::Message;
use super::{Cause, Ended, Event, JupyterError, Kernel, Run, RunStatus, kernels};

/// How long interrupted code may take to end.
const GRACE: Duration = Duration::from_secs(3);
/// An interrupt this early can come before the kernel is ready for one, and be lost.
const EARLY: Duration = Duration::from_millis(300);
const AGAIN_AFTER: Duration = Duration::from_millis(700);
/// How long a kernel that is not busy may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long a kernel that has the code, and works on nothing else, may take until it begins: it may be frozen.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);
/// How often a run is handed over anew, when it was lost before it began.
const ATTEMPTS: usize = 4;

/// Runs the code on the kernel, whose turn it is.
pub(super) async fn perform(kernel: &Kernel, run: &Run, reporter: &mut Reporter) -> Ended {
    for _ in 0..ATTEMPTS {
        let restarts = {
            let _no_restart = kernel.gate.read().await;
            kernel.restarts.subscribe()
        };
        if let Some(ended) = Attempt::new(kernel, run, reporter).follow(restarts).await {
            return ended;
        }
    }
    let cause = Cause::ConnectionLost("the kernel didn't take the code".to_owned());
    Ended::without_reply(RunStatus::Aborted, reporter.seconds(), Some(cause))
}

/// Where the code is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// With us.
    Waiting,
    /// With the kernel, which hasn't begun.
    Sent,
    /// In the kernel, which works on it.
    Running,
}

/// Why the run is to end before its code does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Timeout,
    Cancelled,
    /// It waited for other code as long as it may run itself.
    Busy,
    /// The kernel didn't answer in time.
    NotReady,
    Restarted,
    /// It asked for input, which there is none to give.
    Input,
}

/// What a step leads to.
enum Step {
    Go,
    End(Ended),
    /// From the start: the kernel never had the code, or did not run it.
    Again,
}

struct Attempt<'a> {
    kernel: &'a Kernel,
    run: &'a Run,
    reporter: &'a mut Reporter,
    notices: mpsc::UnboundedReceiver<Notice>,
    phase: Phase,
    stop: Option<Stop>,
    since: Instant,
    deadline: Instant,
    occupied: bool,
    /// The kernel answered a later question than this code.
    answered: bool,
    heard: Heard,
    interrupts: JoinSet<Result<(), JupyterError>>,
    /// The first interrupt may have been lost.
    interrupt_again: bool,
}

impl<'a> Attempt<'a> {
    fn new(kernel: &'a Kernel, run: &'a Run, reporter: &'a mut Reporter) -> Self {
        let (sender, notices) = mpsc::unbounded_channel();
        let request = Request { id: Uuid::new_v4().to_string(), code: run.code.clone(), notices: sender };
        kernel.with_channel(|channel| channel.submit(request));
        let since = Instant::now();
        Self {
            kernel,
            run,
            reporter,
            notices,
            phase: Phase::Waiting,
            stop: None,
            since,
            deadline: after(since, run.timeout),
            occupied: false,
            answered: false,
            heard: Heard::default(),
            interrupts: JoinSet::new(),
            interrupt_again: false,
        }
    }

    /// The run's end; `None` when it has to be handed over anew.
    async fn follow(mut self, mut restarts: watch::Receiver<u64>) -> Option<Ended> {
        let mut watch = Watch::new(self.kernel.rest.clone(), self.kernel.id().to_owned());
        let cancel = self.run.cancel.clone();
        loop {
            let step = tokio::select! {
                notice = self.notices.recv() => self.on_notice(notice),
                observation = watch.next() => self.on_observation(observation),
                Some(interrupted) = self.interrupts.join_next() => self.on_interrupted(&interrupted),
                () = cancel.cancelled(), if self.stop.is_none() => self.on_stop(Stop::Cancelled),
                Ok(()) = restarts.changed() => self.on_restart(),
                () = sleep_until(self.deadline) => self.on_deadline(),
            };
            match step {
                Step::Go => {}
                Step::Again => return None,
                Step::End(ended) => {
                    self.await_interrupts().await;
                    return Some(ended);
                }
            }
        }
    }

    fn on_notice(&mut self, notice: Option<Notice>) -> Step {
        match notice {
            None if self.phase == Phase::Waiting => Step::Again,
            None => self.gone(Cause::ConnectionLost("it was closed".to_owned())),
            Some(Notice::Occupied) => {
                self.on_occupied();
                Step::Go
            }
            Some(Notice::Sent) => self.on_sent(),
            Some(Notice::Withdrawn) => self.on_withdrawn(),
            Some(Notice::Message(message)) => self.on_message(*message),
            Some(Notice::Reconnected) => {
                self.reporter
                    .tell(mark("the connection to the kernel broke while this ran: some of its output may be missing"));
                Step::Go
            }
            Some(Notice::Answered) => {
                self.answered = true;
                Step::Go
            }
            Some(Notice::Gone(cause)) => self.gone(cause),
        }
    }

    fn on_occupied(&mut self) {
        if self.occupied || self.stop.is_some() {
            return;
        }
        self.occupied = true;
        self.deadline = after(self.since, self.run.timeout);
        self.reporter.tell(Event::Queued { ahead: 1 });
    }

    fn on_sent(&mut self) -> Step {
        self.phase = Phase::Sent;
        self.deadline = after(Instant::now(), self.begin_limit());
        match self.stop {
            Some(Stop::Restarted) => self.gone(Cause::RestartedByCaller),
            _ => Step::Go,
        }
    }

    /// How long a kernel that works on nothing may have the code without beginning it.
    fn begin_limit(&self) -> Duration {
        self.run.timeout.max(BEGIN_LIMIT)
    }

    fn on_withdrawn(&mut self) -> Step {
        match self.stop {
            Some(Stop::Cancelled) => self.gone(Cause::CancelledInQueue),
            Some(Stop::Busy) => self.gone(Cause::StillRunning),
            Some(Stop::NotReady) => self.gone(Cause::ConnectionLost("the kernel does not answer".to_owned())),
            Some(Stop::Timeout | Stop::Restarted | Stop::Input) | None => Step::Again,
        }
    }

    fn on_message(&mut self, message: Message) -> Step {
        // It is still being worked on, so an answer to a later question was no sign of its end.
        self.answered = false;
        match self.heard.take(message) {
            Told::Nothing => {}
            Told::Started => self.on_started(),
            Told::Output(output) => self.reporter.tell(output),
            Told::Input(prompt) => return self.on_input(&prompt),
        }
        if self.heard.is_over() { self.on_end() } else { Step::Go }
    }

    fn on_started(&mut self) {
        if self.phase == Phase::Running {
            return;
        }
        self.phase = Phase::Running;
        let started = self.reporter.start();
        self.deadline = after(started, self.run.timeout);
        if self.stop.is_some() {
            self.interrupt();
        }
    }

    /// A kernel that was told that there is no input refuses to ask for some. One that asks all the same would wait for ever.
    fn on_input(&mut self, prompt: &str) -> Step {
        if self.stop.is_some() {
            return Step::Go;
        }
        let (ename, evalue) = no_input(prompt);
        let content = json!({"ename": ename, "evalue": evalue, "traceback": [format!("{ename}: {evalue}")]});
        let error = self.heard.output("error".to_owned(), content);
        self.reporter.tell(error);
        self.on_stop(Stop::Input)
    }

    /// The kernel is through with it.
    fn on_end(&mut self) -> Step {
        if self.heard.was_aborted() && self.stop.is_none() {
            // Somebody else's code failed just before, and took along what the kernel had queued.
            return Step::Again;
        }
        for output in self.heard.rest() {
            self.reporter.tell(output);
        }
        let (status, cause) = match self.stop {
            Some(Stop::Timeout) => (RunStatus::Timeout, None),
            Some(Stop::Input) => (RunStatus::Error, None),
            Some(_) => (RunStatus::Interrupted, Some(Cause::Cancelled)),
            None if self.heard.failed() => (RunStatus::Error, None),
            None => (RunStatus::Ok, None),
        };
        let exception = if status == RunStatus::Ok { None } else { self.heard.exception() };
        Step::End(Ended { exception, asked_exit: self.heard.asked_exit(), ..self.without_reply(status, cause) })
    }

    fn without_reply(&self, status: RunStatus, cause: Option<Cause>) -> Ended {
        Ended { execution_count: self.heard.count(), ..Ended::without_reply(status, self.reporter.seconds(), cause) }
    }

    fn on_observation(&mut self, observation: Observation) -> Step {
        let state = match observation {
            Observation::Gone(cause) => return self.gone(cause),
            Observation::State(state) => state,
        };
        if matches!(state.as_str(), "idle" | "busy") {
            self.kernel.note_alive();
        }
        match self.phase {
            Phase::Waiting if state == "busy" => self.on_occupied(),
            Phase::Waiting => {}
            // Other code that came in between runs on its own time, and is not interrupted.
            Phase::Sent if state != "idle" => {
                self.deadline = after(Instant::now(), self.begin_limit());
            }
            Phase::Sent | Phase::Running if state != "idle" => {}
            // Idle, though we were told of no end: it was lost if the kernel answers what was asked later.
            Phase::Sent | Phase::Running if self.answered => {
                return self
                    .gone(Cause::ConnectionLost("what the code put out at its end did not come through".to_owned()));
            }
            Phase::Sent | Phase::Running => self.kernel.with_channel(Channel::ask),
        }
        Step::Go
    }

    fn on_interrupted(&mut self, interrupted: &Result<Result<(), JupyterError>, tokio::task::JoinError>) -> Step {
        match interrupted {
            Ok(Err(JupyterError::NotFound { .. })) => self.gone(Cause::KernelDeleted),
            Ok(Err(error)) => {
                tracing::warn!(kernel = self.kernel.id(), %error, "a kernel can't be interrupted");
                Step::Go
            }
            _ => {
                // A kernel asleep in an event loop takes note of an interrupt when something else wakes it.
                self.kernel.with_channel(Channel::ask);
                Step::Go
            }
        }
    }

    fn on_restart(&mut self) -> Step {
        match self.phase {
            Phase::Waiting => self.on_stop(Stop::Restarted),
            Phase::Sent | Phase::Running => self.gone(Cause::RestartedByCaller),
        }
    }

    fn on_deadline(&mut self) -> Step {
        match self.phase {
            Phase::Waiting if self.stop.is_some() => {
                // The channel's task has ended with our wish unread.
                self.on_withdrawn()
            }
            Phase::Waiting if self.occupied => self.on_stop(Stop::Busy),
            Phase::Waiting if self.since.elapsed() >= READY_LIMIT => self.on_stop(Stop::NotReady),
            // It is not others that we wait for, but the kernel to get ready.
            Phase::Waiting => {
                self.deadline = after(self.since, READY_LIMIT.max(self.run.timeout)).max(Instant::now() + EARLY);
                Step::Go
            }
            Phase::Running if self.stop.is_none() => self.on_stop(Stop::Timeout),
            Phase::Running if self.interrupt_again => {
                self.interrupt();
                self.interrupt_again = false;
                self.deadline = after(Instant::now(), GRACE.saturating_sub(AGAIN_AFTER));
                Step::Go
            }
            Phase::Sent => self.gone(Cause::NotBegun),
            Phase::Running => self.ignored(),
        }
    }

    fn on_stop(&mut self, stop: Stop) -> Step {
        self.stop = Some(stop);
        match self.phase {
            Phase::Waiting => {
                self.deadline = after(Instant::now(), GRACE);
                self.kernel.with_channel(Channel::withdraw);
            }
            // The kernel has it and can't give it back: it is interrupted as soon as it begins.
            Phase::Sent => {}
            Phase::Running => self.interrupt(),
        }
        Step::Go
    }

    fn interrupt(&mut self) {
        let (rest, id) = (self.kernel.rest.clone(), self.kernel.id().to_owned());
        self.interrupts.spawn(async move { kernels::interrupt(&rest, &id).await });
        self.interrupt_again = self.reporter.seconds() < EARLY.as_secs_f64();
        self.deadline = after(Instant::now(), if self.interrupt_again { AGAIN_AFTER } else { GRACE });
    }

    /// The code goes on in spite of the interrupt.
    fn ignored(&self) -> Step {
        let status = if self.stop == Some(Stop::Timeout) { RunStatus::Timeout } else { RunStatus::Interrupted };
        Step::End(self.without_reply(status, Some(Cause::StillRunning)))
    }

    fn gone(&self, cause: Cause) -> Step {
        // Jupyter starts it again a few times, and then takes it out of its list.
        let cause = match cause {
            Cause::KernelDead | Cause::KernelDeleted if !self.kernel.was_alive() => Cause::KernelStillborn,
            // It may have begun all the same: what it put out at once can be lost with it.
            Cause::KernelRestarted if self.phase != Phase::Running => Cause::KernelWasRestarted,
            cause => cause,
        };
        Step::End(self.without_reply(cause.status(), Some(cause)))
    }

    /// An interrupt on its way must not hit the run after this one.
    async fn await_interrupts(&mut self) {
        let all = async { while self.interrupts.join_next().await.is_some() {} };
        let _ = timeout(GRACE, all).await;
    }
}

fn after(moment: Instant, wait: Duration) -> Instant {
    moment.checked_add(wait.min(FAR)).unwrap_or(moment)
}

/// The name that ipykernel has for it, and what to do.
fn no_input(prompt: &str) -> (&'static str, String) {
    let asked = if prompt.is_empty() { String::new() } else { format!(" ({prompt:?})") };
    (
        "StdinNotImplementedError",
        format!("the code asked for input{asked}, which can't be given here: put the value into the code"),
    )
}
