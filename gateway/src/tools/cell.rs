//! What the tools that act on cells have in common.

use serde_json::{Value, json};

use crate::answer::{Answer, Failure};
use crate::nbformat::{Cell, CellRef, Edit, Outcome, Touched};
use crate::workspace::{Caller, Target};

/// A cell by id, which wins, or by index.
pub(super) fn at(id: Option<String>, index: Option<i64>) -> CellRef {
    CellRef { id, index }
}

/// Makes an edit in the notebook of that name, else in the current one.
pub(super) async fn edit(caller: &Caller, notebook: Option<&str>, edit: Edit) -> Result<(Target, Outcome), Failure> {
    let target = caller.notebook(notebook)?;
    let outcome = target.document.apply(&edit).await?;
    Ok((target, outcome))
}

/// An answer that says which notebook and cell it acted on.
pub(super) fn acted(text: String, target: &Target, cell: &Touched) -> Answer {
    Answer::message(text).with("cell", touched(cell)).with("notebook", target.tag()).cell_id(&cell.id)
}

/// How answers name a cell that was edited.
pub(super) fn touched(cell: &Touched) -> Value {
    json!({"id": cell.id, "index": cell.index, "type": cell.cell_type.as_str()})
}

/// How answers name a cell that was read.
pub(super) fn named(cell: &Cell<'_>) -> Value {
    json!({"id": cell.id(), "index": cell.index(), "type": cell.cell_type().as_str()})
}

/// "cell 3 (id abc) of notebook 'x'".
pub(super) fn place(cell: &Touched, target: &Target) -> String {
    format!("cell {} (id {}) of notebook '{}'", cell.index, cell.id, target.open.name)
}

/// The answer of an edit of one cell's source: what changed, or that nothing did.
pub(super) fn changed(target: &Target, outcome: &Outcome) -> Result<Answer, Failure> {
    let cell = only(outcome)?;
    let place = place(cell, target);
    let text = match &outcome.diff {
        Some(diff) => format!("Changed {place}:\n\n{diff}"),
        None => format!("Nothing to change: {place} is already so."),
    };
    Ok(acted(text, target, cell).with("changed", outcome.diff.is_some()).with("diff", json!(outcome.diff)))
}

/// The one cell that an edit touched.
pub(super) fn only(outcome: &Outcome) -> Result<&Touched, Failure> {
    outcome.cells.first().ok_or_else(|| {
        Failure::new(crate::answer::Code::Internal, "The edit was made but named no cell; read the notebook to see it.")
    })
}
