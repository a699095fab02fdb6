use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hints, Tool, cell};
use crate::answer::{Answer, Code, Failure, Shape};
use crate::nbformat::{CellRef, Edit, Touched};
use crate::workspace::Caller;

/// Delete cells. All are checked before any is removed; the answer has each one's id and source,
/// so that a mistake can be undone.
#[derive(Deserialize, JsonSchema)]
pub(super) struct DeleteCell {
    /// 0-based indices as they are now; or pass ids
    #[serde(default)]
    #[schemars(length(min = 1))]
    cell_indices: Option<Vec<i64>>,
    /// Show the removed sources in the text
    #[serde(default = "super::defaults::yes")]
    include_source: bool,
    /// Open notebook; null = the current one
    #[serde(default)]
    notebook_name: Option<String>,
    /// Cell ids; win over indices
    #[serde(default)]
    cell_ids_to_delete: Option<Vec<String>>,
}

impl Tool for DeleteCell {
    const NAME: &'static str = "delete_cell";
    const TITLE: &'static str = "Delete Cell";
    const KIND: &'static str = "cell.delete";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::CHANGES;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let cells = cells(self.cell_ids_to_delete, self.cell_indices)?;
        let (target, outcome) = cell::edit(caller, self.notebook_name.as_deref(), Edit::Delete { cells }).await?;
        let deleted: Vec<Value> = outcome.cells.iter().map(deleted).collect();
        let mut text = format!("Deleted {} of notebook '{}'.", counted(outcome.cells.len()), target.open.name);
        for cell in &outcome.cells {
            text.push_str(&described(cell, self.include_source));
        }
        let first = cell::touched(cell::only(&outcome)?);
        let answer = Answer::message(text).with("deleted", deleted).with("cell", first).with("notebook", target.tag());
        Ok(outcome.cells.iter().fold(answer, |answer, cell| answer.cell_id(&cell.id)))
    }
}

fn cells(ids: Option<Vec<String>>, indices: Option<Vec<i64>>) -> Result<Vec<CellRef>, Failure> {
    let cells: Vec<CellRef> = match (ids, indices) {
        (Some(ids), _) if !ids.is_empty() => ids.into_iter().map(|id| cell::at(Some(id), None)).collect(),
        (_, indices) => indices.unwrap_or_default().into_iter().map(|index| cell::at(None, Some(index))).collect(),
    };
    if cells.is_empty() {
        let message =
            "Say which cells: pass cell_ids_to_delete (read_notebook shows ids) or cell_indices. Nothing was deleted.";
        return Err(Failure::new(Code::ArgumentsInvalid, message));
    }
    Ok(cells)
}

fn deleted(cell: &Touched) -> Value {
    json!({"id": cell.id, "index": cell.index, "type": cell.cell_type.as_str(), "source": cell.source})
}

fn counted(cells: usize) -> String {
    if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") }
}

fn described(cell: &Touched, include_source: bool) -> String {
    let head = format!("\n\n[{}] id {} {}", cell.index, cell.id, cell.cell_type.as_str());
    if include_source { format!("{head}:\n{}", cell.source) } else { head }
}
