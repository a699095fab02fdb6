use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Failure, Shape};
use crate::nbformat::Edit;
use crate::workspace::Caller;

/// Replace text inside one cell, literally. old_string must occur exactly once unless replace_all
/// is true. Answers the diff. For a whole new source use overwrite_cell_source.
#[derive(Deserialize, JsonSchema)]
pub(super) struct EditCellSource {
    /// 0-based index; or pass cell_id
    #[serde(default)]
    #[schemars(range(min = 0))]
    cell_index: Option<i64>,
    /// Text to find, exactly as stored
    old_string: String,
    /// Text to put there
    new_string: String,
    /// Replace every occurrence
    #[serde(default)]
    replace_all: bool,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
    /// Cell id; wins over the index
    #[serde(default)]
    cell_id: Option<String>,
}

impl Tool for EditCellSource {
    const NAME: &'static str = "edit_cell_source";
    const TITLE: &'static str = "Edit Cell Source";
    const KIND: &'static str = "cell.edit";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::CHANGES;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let edit = Edit::Replace {
            cell: cell::at(self.cell_id, self.cell_index),
            old: self.old_string,
            new: self.new_string,
            replace_all: self.replace_all,
        };
        let (target, outcome) = cell::edit(caller, self.notebook_name.as_deref(), edit).await?;
        cell::changed(&target, &outcome)
    }
}
