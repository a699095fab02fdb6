use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Failure, Shape};
use crate::audit::Action;
use crate::nbformat::{CellType, Edit};
use crate::workspace::{Caller, Options};

/// Insert a code cell (-1 appends), run it and save its outputs. Answers the new cell's id. As
/// execute_cell otherwise.
#[derive(Deserialize, JsonSchema)]
pub(super) struct InsertExecuteCodeCell {
    /// 0-based; -1 appends
    #[schemars(range(min = -1))]
    cell_index: i64,
    /// Code of the new cell
    cell_source: String,
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
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
}

impl Tool for InsertExecuteCodeCell {
    const NAME: &'static str = "insert_execute_code_cell";
    const TITLE: &'static str = "Insert and Execute Code Cell";
    const KIND: &'static str = "cell.insert_execute";
    const SHAPE: Shape = Shape::Outputs;
    const HINTS: Hints = Hints::RUNS;
    const AUDIT: Option<Action> = Some(Action::Execute);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let target = caller.notebook(self.notebook_name.as_deref())?;
        // The kernel first: a notebook whose kernel can't start is left as it was.
        caller.kernel(&target).await?;
        let edit = Edit::Insert { index: self.cell_index, cell_type: CellType::Code, source: self.cell_source };
        let outcome = target.document.apply(&edit).await?;
        let inserted = cell::at(Some(cell::only(&outcome)?.id.clone()), None);
        let options = Options { timeout: self.timeout, stream: self.stream, progress_interval: self.progress_interval };
        caller.run_cell(&target, &inserted, options).await
    }
}
