//! The outputs of a cell in its notebook: while it runs, and at its end.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::super::notebooks::Target;
use crate::answer::Failure;
use crate::jupyter::{Ended, RunStatus};
use crate::nbformat::{CellRef, Edit, Outputs, error_output};

/// Outputs are saved at most this often while a cell runs.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// A save that took a while is followed by this many times as long without one.
const SAVE_SHARE: u32 = 10;

/// A cell whose outputs are saved while it runs.
pub(super) struct Saving<'a> {
    target: &'a Target,
    cell: CellRef,
    next: Instant,
    dirty: bool,
    /// The save under way. What the kernel says meanwhile is taken all the same: nothing queues up.
    under_way: Option<BoxFuture<'a, Duration>>,
}

impl<'a> Saving<'a> {
    pub(super) fn new(target: &'a Target, cell: CellRef) -> Self {
        Self { target, cell, next: Instant::now() + SAVE_EVERY, dirty: false, under_way: None }
    }

    /// There is more to be saved.
    pub(super) fn is_behind(&mut self) {
        self.dirty = true;
    }

    /// Saves what a run left, if it began.
    pub(super) async fn end(
        &mut self,
        kernel: &str,
        outputs: &Outputs,
        ended: &Ended,
        began: bool,
    ) -> Result<(), Failure> {
        // An earlier save must not come after the last one.
        if let Some(under_way) = self.under_way.take() {
            under_way.await;
        }
        if !began {
            return Ok(());
        }
        let all = [outputs.to_json(), unfinished(outputs, ended)].concat();
        store(self.target, self.edit(all, ended.execution_count)).await?;
        let cell = self.cell.id.as_deref().unwrap_or_default();
        self.target.document.remember_displays(kernel, cell, outputs.displays());
        Ok(())
    }

    fn edit(&self, outputs: Vec<Value>, execution_count: Option<i64>) -> Edit {
        Edit::SetOutputs { cell: self.cell.clone(), outputs, execution_count }
    }

    /// Begins to save the outputs so far. What fails here is made good, or reported, at the end.
    fn begin(&mut self, outputs: &Outputs) {
        let (target, edit, begun): (&'a Target, _, _) =
            (self.target, self.edit(outputs.to_json(), None), Instant::now());
        self.dirty = false;
        self.under_way = Some(Box::pin(async move {
            if let Err(failure) = store(target, edit).await {
                tracing::debug!(message = failure.message, "outputs could not be saved yet");
            }
            begun.elapsed()
        }));
    }
}

async fn store(target: &Target, edit: Edit) -> Result<(), Failure> {
    target.document.apply(&edit).await.map(drop)
}

/// Waits until the next save has begun, or the one under way has ended.
pub(super) async fn step(cell: &mut Option<Saving<'_>>, outputs: &Outputs) {
    let Some(cell) = cell else { return std::future::pending().await };
    if let Some(under_way) = &mut cell.under_way {
        let took = under_way.await;
        cell.under_way = None;
        cell.next = Instant::now() + SAVE_EVERY.max(took * SAVE_SHARE);
    } else if cell.dirty {
        tokio::time::sleep_until(cell.next.into()).await;
        cell.begin(outputs);
    } else {
        std::future::pending::<()>().await;
    }
}

/// What the notebook is told of a run that did not come to its end, unless an error among its outputs tells it: without that it
/// would look as if all were well.
fn unfinished(outputs: &Outputs, ended: &Ended) -> Vec<Value> {
    let name = match ended.status {
        RunStatus::Ok | RunStatus::Error => return Vec::new(),
        RunStatus::Timeout => "ExecutionTimeout",
        RunStatus::Interrupted => "ExecutionCancelled",
        RunStatus::Died => "KernelDied",
        RunStatus::Aborted => "ExecutionAborted",
    };
    if outputs.has_error() {
        return Vec::new();
    }
    let why = match &ended.cause {
        Some(cause) => cause.to_string(),
        None => "it was interrupted at its time limit".to_owned(),
    };
    vec![error_output(name, &why)]
}
