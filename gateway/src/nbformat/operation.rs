//! The smallest changes of a document, as data: whoever stores a notebook can make them.

use serde_json::{Value, json};

use super::cell::{CellType, Entry};
use super::notebook::Notebook;
use super::{ids, source};

/// One change, with indices as they are when its turn comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Puts a whole cell in, which holds its id.
    InsertCell {
        /// Where it is then.
        index: usize,
        /// The cell as nbformat stores it.
        cell: Value,
    },
    /// Takes a cell out.
    DeleteCell {
        /// Where it is.
        index: usize,
    },
    /// Takes a cell out and puts it in again.
    MoveCell {
        /// Where it is.
        from: usize,
        /// Where it is then.
        to: usize,
    },
    /// Gives a cell another source.
    SetSource {
        /// Which cell.
        index: usize,
        /// The whole source.
        source: String,
    },
    /// Gives a code cell other outputs and another count.
    SetOutputs {
        /// Which cell.
        index: usize,
        /// All its outputs.
        outputs: Vec<Value>,
        /// The count; none is null.
        execution_count: Option<i64>,
    },
    /// Changes what one output of a code cell shows.
    SetOutput {
        /// Which cell.
        index: usize,
        /// Which of its outputs.
        output: usize,
        /// Its MIME bundle.
        data: Value,
        /// The metadata of that bundle.
        metadata: Value,
    },
}

impl Notebook {
    /// Makes a change. One that does not fit this document, which [`Self::resolve`] never gives,
    /// changes nothing.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::InsertCell { index, cell } => self.insert_cell(*index, cell),
            Operation::DeleteCell { index } => {
                if *index < self.cells.len() {
                    self.cells.remove(*index);
                }
            }
            Operation::MoveCell { from, to } => {
                if (*from).max(*to) < self.cells.len() {
                    let entry = self.cells.remove(*from);
                    self.cells.insert(*to, entry);
                }
            }
            Operation::SetSource { index, source } => {
                if let Some(entry) = self.cells.get_mut(*index) {
                    entry.set("source", source::lines(source));
                }
            }
            Operation::SetOutputs { index, outputs, execution_count } => {
                if let Some(entry) = self.code_mut(*index) {
                    entry.set("outputs", outputs.clone().into());
                    entry.set("execution_count", json!(execution_count));
                }
            }
            Operation::SetOutput { index, output, data, metadata } => {
                if let Some(output) = self.display_mut(*index, *output) {
                    output.insert("data".to_owned(), data.clone());
                    output.insert("metadata".to_owned(), metadata.clone());
                }
            }
        }
    }

    fn insert_cell(&mut self, index: usize, cell: &Value) {
        let Ok(mut entry) = Entry::read(index, cell.clone()) else { return };
        if entry.id.is_empty() {
            entry.id = ids::fresh(&mut self.cells.iter().map(|entry| entry.id.clone()).collect());
        }
        if index <= self.cells.len() {
            self.cells.insert(index, entry);
        }
    }

    fn code_mut(&mut self, index: usize) -> Option<&mut Entry> {
        self.cells.get_mut(index).filter(|entry| entry.cell_type == CellType::Code)
    }

    fn display_mut(&mut self, index: usize, output: usize) -> Option<&mut serde_json::Map<String, Value>> {
        let outputs = self.code_mut(index)?.value.get_mut("outputs")?;
        outputs.get_mut(output)?.as_object_mut().filter(|output| output.contains_key("data"))
    }
}
