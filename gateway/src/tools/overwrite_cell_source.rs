use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Failure, Shape};
use crate::nbformat::Edit;
use crate::workspace::Caller;

/// Replace the whole source of one cell; its id, type, metadata and outputs stay. Answers the diff.
#[derive(Deserialize, JsonSchema)]
pub(super) struct OverwriteCellSource {
    /// 0-based index; or pass cell_id
    #[serde(default)]
    #[schemars(range(min = 0))]
    cell_index: Option<i64>,
    /// The new source
    cell_source: String,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
    /// Cell id; wins over the index
    #[serde(default)]
    cell_id: Option<String>,
}

impl Tool for OverwriteCellSource {
    const NAME: &'static str = "overwrite_cell_source";
    const TITLE: &'static str = "Overwrite Cell Source";
    const KIND: &'static str = "cell.overwrite";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let edit = Edit::Overwrite { cell: cell::at(self.cell_id, self.cell_index), source: self.cell_source };
        let (target, outcome) = cell::edit(caller, self.notebook_name.as_deref(), edit).await?;
        cell::changed(&target, &outcome)
    }
}
