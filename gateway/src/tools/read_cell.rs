use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Code, Failure, Part, Shape, render};
use crate::nbformat::{Cell, CellType};
use crate::workspace::{Caller, Document};

/// Read one cell: a line about it, its source as stored, then its outputs.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadCell {
    /// 0-based index; or pass cell_id
    #[serde(default)]
    #[schemars(range(min = 0))]
    cell_index: Option<i64>,
    /// With the outputs of a code cell
    #[serde(default = "super::defaults::yes")]
    include_outputs: bool,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
    /// Cell id; wins over the index
    #[serde(default)]
    cell_id: Option<String>,
}

impl Tool for ReadCell {
    const NAME: &'static str = "read_cell";
    const TITLE: &'static str = "Read Cell";
    const KIND: &'static str = "cell.read";
    const SHAPE: Shape = Shape::Outputs;
    const HINTS: Hints = Hints::READS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let target = caller.notebook(self.notebook_name.as_deref())?;
        let notebook = target.document.read().await?;
        let index = notebook.find(&cell::at(self.cell_id, self.cell_index))?;
        let Some(cell) = notebook.cell(index) else {
            return Err(Failure::new(Code::CellNotFound, "The cell is gone; read the notebook again."));
        };
        let status = status(&cell, &target.document);
        let mut parts = vec![Part::Text(banner(&cell, status)), Part::Text(cell.source())];
        if self.include_outputs && cell.cell_type() == CellType::Code {
            parts.extend(render(cell.outputs()));
        }
        let answer = Answer::outputs(parts)
            .with("cell", cell::named(&cell))
            .with("notebook", target.tag())
            .with("source", cell.source())
            .with("metadata", cell.metadata())
            .with("execution_count", json!(cell.execution_count()))
            .with("status", json!(status))
            .cell_id(cell.id());
        Ok(match exception(&cell) {
            Some(exception) => answer.with("exception", exception),
            None => answer,
        })
    }
}

fn banner(cell: &Cell<'_>, status: Option<&str>) -> String {
    let count = cell.execution_count().map_or(String::new(), |count| format!(", execution count {count}"));
    let status = status.map_or(String::new(), |status| format!(", {status}"));
    format!("Cell {} (id {}), {}{count}{status}", cell.index(), cell.id(), cell.cell_type())
}

/// What became of a code cell; nothing for the others.
fn status(cell: &Cell<'_>, document: &Document) -> Option<&'static str> {
    if cell.cell_type() != CellType::Code {
        return None;
    }
    Some(if document.is_running(cell.id()) {
        "running"
    } else if cell.outputs().iter().any(|output| output["output_type"] == "error") {
        "error"
    } else if cell.execution_count().is_none() && cell.outputs().is_empty() {
        "never run"
    } else {
        "ok"
    })
}

fn exception(cell: &Cell<'_>) -> Option<Value> {
    let error = cell.outputs().iter().find(|output| output["output_type"] == "error")?;
    Some(json!({"ename": error["ename"], "evalue": error["evalue"]}))
}
