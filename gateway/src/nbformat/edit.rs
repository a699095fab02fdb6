//! Edits as callers mean them, and what they come to in a document.
//!
//! Resolving checks everything before anything changes: an edit that is refused changes nothing.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::cell::{CellType, Entry};
use super::error::EditError;
use super::find::CellRef;
use super::notebook::Notebook;
use super::operation::Operation;
use super::{diff, ids, replace, source};

/// A change of a notebook, in the words of whoever wants it.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// A new cell at an index from 0 to the number of cells; -1 appends.
    Insert {
        /// Where the new cell is then.
        index: i64,
        /// What it holds.
        cell_type: CellType,
        /// Its source.
        source: String,
    },
    /// Removes cells, all or none; naming one twice is refused.
    Delete {
        /// The cells as they stand before any is removed.
        cells: Vec<CellRef>,
    },
    /// Takes a cell out and puts it in at the index that the target had.
    Move {
        /// The cell that moves.
        source: CellRef,
        /// The cell whose place it takes.
        target: CellRef,
    },
    /// Gives a cell a new source; all else of it stays.
    Overwrite {
        /// The cell.
        cell: CellRef,
        /// Its new source.
        source: String,
    },
    /// Replaces a text in a source, literally. Without `replace_all` it must occur exactly once,
    /// overlapping occurrences counted.
    Replace {
        /// The cell.
        cell: CellRef,
        /// The text to replace; not empty.
        old: String,
        /// What stands there then.
        new: String,
        /// All occurrences, from left to right and without overlap.
        replace_all: bool,
    },
    /// Removes the outputs and the execution count of a code cell.
    ClearOutputs {
        /// The cell.
        cell: CellRef,
    },
    /// Stores the outputs of a code cell's run.
    SetOutputs {
        /// The cell.
        cell: CellRef,
        /// All its outputs.
        outputs: Vec<Value>,
        /// The kernel's count, once it is known.
        execution_count: Option<i64>,
    },
    /// A display update for a cell that ran before. An output that is no display any more is left.
    SetOutput {
        /// The cell.
        cell: CellRef,
        /// Which of its outputs.
        output: usize,
        /// The MIME bundle that it shows now.
        data: Value,
        /// The metadata of that bundle.
        metadata: Value,
    },
}

/// What an edit comes to: nothing was changed yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// To be applied in this order; none when everything is so already.
    pub operations: Vec<Operation>,
    /// What is to be told once they are applied.
    pub outcome: Outcome,
}

/// What an edit did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The cells that the edit named or made; a move has the moved one and then the other.
    pub cells: Vec<Touched>,
    /// The unified diff of a changed source; none when no source changed.
    pub diff: Option<String>,
}

/// A cell that an edit touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The id that it goes by.
    pub id: String,
    /// Where it is after the edit; where it was, when it is deleted.
    pub index: usize,
    /// What it holds.
    pub cell_type: CellType,
    /// Its source after the edit.
    pub source: String,
}

type Result<T = Resolved> = std::result::Result<T, EditError>;

impl Notebook {
    /// Finds what an edit means here, and refuses it when anything about it is wrong.
    pub fn resolve(&self, edit: &Edit) -> Result {
        match edit {
            Edit::Insert { index, cell_type, source } => self.insert(*index, *cell_type, source),
            Edit::Delete { cells } => self.delete(cells),
            Edit::Move { source, target } => self.move_cell(source, target),
            Edit::Overwrite { cell, source } => self.overwrite(cell, source),
            Edit::Replace { cell, old, new, replace_all } => {
                let (_, entry) = self.named(cell)?;
                self.overwrite(cell, &replace::replaced(&entry.source(), old, new, *replace_all)?)
            }
            Edit::ClearOutputs { cell } => self.set_outputs(cell, &[], None),
            Edit::SetOutputs { cell, outputs, execution_count } => self.set_outputs(cell, outputs, *execution_count),
            Edit::SetOutput { cell, output, data, metadata } => {
                let set = |index| Operation::SetOutput {
                    index,
                    output: *output,
                    data: data.clone(),
                    metadata: metadata.clone(),
                };
                self.set_output(cell, *output, set)
            }
        }
    }

    fn insert(&self, index: i64, cell_type: CellType, source: &str) -> Result {
        let index = self.place(index)?;
        let mut taken: HashSet<String> = self.cells.iter().map(|entry| entry.id.clone()).collect();
        let id = ids::fresh(&mut taken);
        let cell = new_cell(&id, cell_type, source);
        let touched = Touched { id, index, cell_type, source: source.to_owned() };
        Ok(resolved(vec![Operation::InsertCell { index, cell }], vec![touched]))
    }

    fn delete(&self, cells: &[CellRef]) -> Result {
        if cells.is_empty() {
            return Err(EditError::Invalid("Say which cells to delete; none was named.".to_owned()));
        }
        let mut indices = cells.iter().map(|cell| self.find(cell)).collect::<Result<Vec<_>>>()?;
        indices.sort_unstable();
        if let Some([twice, ..]) = indices.windows(2).find(|pair| matches!(pair, [one, other] if one == other)) {
            let message = format!("Cell {twice} is named twice; nothing was deleted. Name each cell once.");
            return Err(EditError::Invalid(message));
        }
        let removed = indices.iter().filter_map(|&index| self.touched(index, index)).collect();
        let operations = indices.iter().rev().map(|&index| Operation::DeleteCell { index }).collect();
        Ok(resolved(operations, removed))
    }

    fn move_cell(&self, source: &CellRef, target: &CellRef) -> Result {
        let (from, to) = (self.find(source)?, self.find(target)?);
        let other_now = match from.cmp(&to) {
            std::cmp::Ordering::Less => to - 1,
            std::cmp::Ordering::Equal => to,
            std::cmp::Ordering::Greater => to + 1,
        };
        let cells = [self.touched(from, to), self.touched(to, other_now)].into_iter().flatten().collect();
        let operations = if from == to { Vec::new() } else { vec![Operation::MoveCell { from, to }] };
        Ok(resolved(operations, cells))
    }

    fn overwrite(&self, cell: &CellRef, source: &str) -> Result {
        let (index, entry) = self.named(cell)?;
        let (old, source) = (entry.source(), source.to_owned());
        let diff = diff::unified(&old, &source);
        let touched = Touched { id: entry.id.clone(), index, cell_type: entry.cell_type, source: source.clone() };
        let operations = diff.iter().map(|_| Operation::SetSource { index, source: source.clone() }).collect();
        Ok(Resolved { operations, outcome: Outcome { cells: vec![touched], diff } })
    }

    fn set_outputs(&self, cell: &CellRef, outputs: &[Value], execution_count: Option<i64>) -> Result {
        let (index, entry) = self.code(cell)?;
        let cells = self.touched(index, index).into_iter().collect();
        let stored = |key| entry.value.get(key);
        if stored("outputs").and_then(Value::as_array).is_some_and(|stored| stored == outputs)
            && stored("execution_count") == Some(&json!(execution_count))
        {
            return Ok(resolved(Vec::new(), cells));
        }
        let operation = Operation::SetOutputs { index, outputs: outputs.to_vec(), execution_count };
        Ok(resolved(vec![operation], cells))
    }

    fn set_output(&self, cell: &CellRef, output: usize, set: impl Fn(usize) -> Operation) -> Result {
        let (index, entry) = self.code(cell)?;
        let cells = self.touched(index, index).into_iter().collect();
        let shown = entry.value.get("outputs").and_then(|outputs| outputs.get(output));
        let is_display = shown.is_some_and(|output| output.get("data").is_some());
        Ok(resolved(if is_display { vec![set(index)] } else { Vec::new() }, cells))
    }

    fn named(&self, cell: &CellRef) -> Result<(usize, &Entry)> {
        let index = self.find(cell)?;
        let gone = || EditError::CellNotFound("The cell is gone; read_notebook shows what is there.".to_owned());
        Ok((index, self.cells.get(index).ok_or_else(gone)?))
    }

    fn code(&self, cell: &CellRef) -> Result<(usize, &Entry)> {
        let (index, entry) = self.named(cell)?;
        if entry.cell_type == CellType::Code {
            return Ok((index, entry));
        }
        Err(EditError::WrongType(format!(
            "Cell {index} (id {}) is a {} cell, which has no outputs; name a code cell.",
            entry.id, entry.cell_type
        )))
    }

    /// The cell at `index`, told as being at `now`.
    fn touched(&self, index: usize, now: usize) -> Option<Touched> {
        let entry = self.cells.get(index)?;
        Some(Touched { id: entry.id.clone(), index: now, cell_type: entry.cell_type, source: entry.source() })
    }
}

fn resolved(operations: Vec<Operation>, cells: Vec<Touched>) -> Resolved {
    Resolved { operations, outcome: Outcome { cells, diff: None } }
}

/// A cell that has never run, its keys in the order in which Jupyter stores them.
fn new_cell(id: &str, cell_type: CellType, source: &str) -> Value {
    let (name, source) = (cell_type.as_str(), source::lines(source));
    match cell_type {
        CellType::Code => {
            json!({"cell_type": name, "execution_count": null, "id": id, "metadata": {}, "outputs": [], "source": source})
        }
        CellType::Markdown | CellType::Raw => json!({"cell_type": name, "id": id, "metadata": {}, "source": source}),
    }
}

#[cfg(test)]
mod tests;
