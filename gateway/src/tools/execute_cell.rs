use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Failure, Shape};
use crate::audit::Action;
use crate::workspace::{Caller, Options};

/// Run one code cell and save its outputs in the notebook. Waits for the end: pass a timeout for
/// long code. An exception is an output (status `error`), not a failed call.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ExecuteCell {
    /// 0-based index; or pass cell_id
    #[serde(default)]
    #[schemars(range(min = 0))]
    cell_index: Option<i64>,
    /// Seconds, from when the code starts; 0 = the default (120)
    #[serde(default)]
    #[schemars(range(min = 0), with = "i64")]
    timeout: u64,
    /// Report progress
    #[serde(default = "super::defaults::yes")]
    stream: bool,
    /// Seconds between reports
    #[serde(default = "super::defaults::progress_interval")]
    #[schemars(range(min = 1), with = "i64")]
    progress_interval: u64,
    /// Cell id; wins over the index
    #[serde(default)]
    cell_id: Option<String>,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
}

impl Tool for ExecuteCell {
    const NAME: &'static str = "execute_cell";
    const TITLE: &'static str = "Execute Cell";
    const KIND: &'static str = "cell.execute";
    const SHAPE: Shape = Shape::Outputs;
    const HINTS: Hints = Hints::RUNS;
    const AUDIT: Option<Action> = Some(Action::Execute);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let target = caller.notebook(self.notebook_name.as_deref())?;
        let options = Options { timeout: self.timeout, stream: self.stream, progress_interval: self.progress_interval };
        caller.run_cell(&target, &cell::at(self.cell_id, self.cell_index), options).await
    }
}
