use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Failure, Shape};
use crate::nbformat::Edit;
use crate::workspace::Caller;

/// Move a cell to the place that another one has now. It keeps its id, outputs and metadata.
#[derive(Deserialize, JsonSchema)]
pub(super) struct MoveCell {
    /// 0-based index of the cell to move; or pass its id
    #[serde(default)]
    #[schemars(range(min = 0))]
    source_index: Option<i64>,
    /// The index it gets; or pass target_cell_id
    #[serde(default)]
    #[schemars(range(min = 0))]
    target_index: Option<i64>,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
    /// Id of the cell to move
    #[serde(default)]
    source_cell_id: Option<String>,
    /// Id of the cell whose place it takes
    #[serde(default)]
    target_cell_id: Option<String>,
}

impl Tool for MoveCell {
    const NAME: &'static str = "move_cell";
    const TITLE: &'static str = "Move Cell";
    const KIND: &'static str = "cell.move";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::CHANGES;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let edit = Edit::Move {
            source: cell::at(self.source_cell_id, self.source_index),
            target: cell::at(self.target_cell_id, self.target_index),
        };
        let (target, outcome) = cell::edit(caller, self.notebook_name.as_deref(), edit).await?;
        let moved = cell::only(&outcome)?;
        let text = format!("Moved: it is now {}.", cell::place(moved, &target));
        let answer = cell::acted(text, &target, moved);
        Ok(outcome
            .cells
            .iter()
            .skip(1)
            .filter(|other| other.id != moved.id)
            .fold(answer, |answer, other| answer.cell_id(&other.id)))
    }
}
