//! A second pair of eyes on a kernel while somebody waits for it: what no message tells.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::rest::Rest;
use super::{Cause, JupyterError, kernels};

/// The first look tells whether a kernel that doesn't answer is busy.
const FIRST: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_secs(2);
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// How often a connection may be refused in a row; a server that is only slow gets [`PATIENCE`].
const REFUSALS: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// What REST tells about a kernel.
pub(super) enum Observation {
    /// Its execution state.
    State(String),
    /// It can't answer any more.
    Gone(Cause),
}

/// Observations of one kernel, until it is dropped.
pub(super) struct Watch {
    observations: mpsc::UnboundedReceiver<Observation>,
    _task: JoinSet<()>,
}

impl Watch {
    pub(super) fn new(rest: Rest, kernel: String) -> Self {
        let (sender, observations) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(observe(rest, kernel, sender));
        Self { observations, _task: task }
    }

    /// The next one; waits for ever after the last.
    pub(super) async fn next(&mut self) -> Observation {
        match self.observations.recv().await {
            Some(observation) => observation,
            None => std::future::pending().await,
        }
    }
}

async fn observe(rest: Rest, kernel: String, observations: mpsc::UnboundedSender<Observation>) {
    let (mut refusals, mut answered, mut wait) = (0, Instant::now(), FIRST);
    loop {
        sleep(wait).await;
        wait = EVERY;
        let asked = Instant::now();
        let gone = match kernels::model(&rest, &kernel, ASK_LIMIT).await {
            Ok(Some(model)) if model.execution_state == "dead" => Some(Cause::KernelDead),
            Ok(Some(model)) => {
                (refusals, answered) = (0, Instant::now());
                if observations.send(Observation::State(model.execution_state)).is_err() {
                    return;
                }
                None
            }
            Ok(None) => Some(Cause::KernelDeleted),
            Err(JupyterError::Unauthorized { .. }) => Some(Cause::Unauthorized),
            Err(JupyterError::Unreachable { reason, .. }) => {
                // A busy server is slow to answer; one that is down refuses at once.
                refusals = if asked.elapsed() < ASK_LIMIT / 2 { refusals + 1 } else { 0 };
                (refusals >= REFUSALS || answered.elapsed() > PATIENCE).then_some(Cause::ServerUnreachable(reason))
            }
            Err(_) => None,
        };
        if let Some(cause) = gone {
            let _ = observations.send(Observation::Gone(cause));
            return;
        }
    }
}
