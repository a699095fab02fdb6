use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Failure, Shape};
use crate::nbformat::Edit;
use crate::workspace::Caller;

/// Remove the outputs and the execution count of one code cell. Its source stays.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ClearCellOutput {
    /// 0-based index; or pass cell_id
    #[serde(default)]
    #[schemars(range(min = 0))]
    cell_index: Option<i64>,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
    /// Cell id; wins over the index
    #[serde(default)]
    cell_id: Option<String>,
}

impl Tool for ClearCellOutput {
    const NAME: &'static str = "clear_cell_output";
    const TITLE: &'static str = "Clear Cell Output";
    const KIND: &'static str = "cell.clear_output";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let edit = Edit::ClearOutputs { cell: cell::at(self.cell_id, self.cell_index) };
        let (target, outcome) = cell::edit(caller, self.notebook_name.as_deref(), edit).await?;
        let touched = cell::only(&outcome)?;
        Ok(cell::acted(format!("Outputs cleared: {}.", cell::place(touched, &target)), &target, touched))
    }
}
