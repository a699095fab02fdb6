use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Code, Failure, Shape};
use crate::nbformat::{CellType, Edit};
use crate::workspace::Caller;

/// Insert a cell so that it gets this index; -1 appends at the end. Answers the new cell's id.
#[derive(Deserialize, JsonSchema)]
pub(super) struct InsertCell {
    /// 0-based; -1 appends
    #[schemars(range(min = -1))]
    cell_index: i64,
    /// Cell type
    #[schemars(extend("enum" = ["code", "markdown", "raw"]))]
    cell_type: String,
    /// The new cell's source
    cell_source: String,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
}

impl Tool for InsertCell {
    const NAME: &'static str = "insert_cell";
    const TITLE: &'static str = "Insert Cell";
    const KIND: &'static str = "cell.insert";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::CHANGES;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let cell_type: CellType = self
            .cell_type
            .parse()
            .map_err(|_| Failure::new(Code::ArgumentsInvalid, "cell_type has to be code, markdown or raw."))?;
        let edit = Edit::Insert { index: self.cell_index, cell_type, source: self.cell_source };
        let (target, outcome) = cell::edit(caller, self.notebook_name.as_deref(), edit).await?;
        let touched = cell::only(&outcome)?;
        let text = format!("Inserted {} {}.", touched.cell_type, cell::place(touched, &target));
        Ok(cell::acted(text, &target, touched))
    }
}
