//! The steps as they end, told to people at once or to programs at the end.

use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::telemetry::show;

/// How long the clean-up may take, whatever time is left.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// What ends the steps before their end.
pub(super) struct Bounds {
    pub(super) limit: Duration,
    pub(super) deadline: Instant,
    pub(super) stop: CancellationToken,
}

/// What became of the steps.
pub(super) struct Report {
    url: String,
    json: bool,
    bounds: Bounds,
    steps: Vec<Step>,
}

/// One step; `ok` and `milliseconds` are null for one that was not tried.
#[derive(Serialize)]
struct Step {
    name: &'static str,
    ok: Option<bool>,
    milliseconds: Option<u64>,
    detail: String,
}

impl Report {
    pub(super) fn new(url: String, json: bool, bounds: Bounds) -> Self {
        Self { url, json, bounds, steps: Vec::new() }
    }

    /// Whether every step so far was tried and went well.
    pub(super) fn is_fine(&self) -> bool {
        self.steps.iter().all(|step| step.ok == Some(true))
    }

    /// Does a step, unless an earlier one failed; answers whether it went well.
    pub(super) async fn step(
        &mut self,
        name: &'static str,
        work: impl Future<Output = anyhow::Result<String>>,
    ) -> bool {
        if !self.is_fine() {
            self.not_tried(name);
            return false;
        }
        let begun = Instant::now();
        let outcome = tokio::select! {
            biased;
            () = self.bounds.stop.cancelled() => Err(anyhow!("stopped before its end: check again")),
            outcome = work => outcome,
            () = sleep_until(self.bounds.deadline) => Err(self.late()),
        };
        self.add(name, begun, outcome)
    }

    /// Does a step whatever came before it.
    pub(super) async fn last_step(
        &mut self,
        name: &'static str,
        work: impl Future<Output = anyhow::Result<String>>,
    ) -> bool {
        let begun = Instant::now();
        let late = || Err(anyhow!("no answer within {} s: see with list_sandboxes what is left", CLEAN_UP.as_secs()));
        let outcome = timeout(CLEAN_UP, work).await.unwrap_or_else(|_| late());
        self.add(name, begun, outcome)
    }

    /// Says that a step was left out.
    pub(super) fn not_tried(&mut self, name: &'static str) {
        self.tell(Step { name, ok: None, milliseconds: None, detail: "not tried".to_owned() });
    }

    /// Tells what is still to be told, and answers whether all is fine.
    pub(super) fn end(self) -> bool {
        let ok = self.is_fine();
        if self.json {
            show!("{}", json!({"ok": ok, "url": self.url, "steps": self.steps}));
        }
        ok
    }

    fn late(&self) -> anyhow::Error {
        let seconds = self.bounds.limit.as_secs();
        anyhow!(
            "not done when the {seconds} s for all steps were over: look at the gateway's log, or give a larger --timeout"
        )
    }

    fn add(&mut self, name: &'static str, begun: Instant, outcome: anyhow::Result<String>) -> bool {
        let ok = outcome.is_ok();
        let detail = one_line(&outcome.unwrap_or_else(|error| format!("{error:#}")));
        let milliseconds = u64::try_from(begun.elapsed().as_millis()).ok();
        self.tell(Step { name, ok: Some(ok), milliseconds, detail });
        ok
    }

    fn tell(&mut self, step: Step) {
        if !self.json {
            show!("{}", line(&step));
        }
        self.steps.push(step);
    }
}

fn line(Step { name, ok, milliseconds, detail }: &Step) -> String {
    match (ok, milliseconds) {
        (Some(true), Some(milliseconds)) => format!("✓ {name}  {detail} ({milliseconds} ms)"),
        (Some(true), None) => format!("✓ {name}  {detail}"),
        (Some(false), _) => format!("✗ {name}  {detail}"),
        (None, _) => format!("- {name}  {detail}"),
    }
}

/// A server's words must not steer the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
