//! One cell of a notebook, as a view of the document.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{EditError, NotebookError};
use super::{ids, source};

/// The three types of cells that nbformat 4 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CellType {
    /// Code that a kernel runs.
    Code,
    /// Text in Markdown.
    Markdown,
    /// Text that is passed through conversions as it is.
    Raw,
}

impl CellType {
    /// The name that nbformat gives it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

impl fmt::Display for CellType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for CellType {
    type Err = EditError;

    fn from_str(name: &str) -> Result<Self, EditError> {
        match name {
            "code" => Ok(Self::Code),
            "markdown" => Ok(Self::Markdown),
            "raw" => Ok(Self::Raw),
            _ => Err(EditError::Invalid("A cell_type must be \"code\", \"markdown\" or \"raw\".".to_owned())),
        }
    }
}

/// A cell where it stands in its notebook.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    index: usize,
    entry: &'a Entry,
}

impl<'a> Cell<'a> {
    pub(super) fn new(index: usize, entry: &'a Entry) -> Self {
        Self { index, entry }
    }

    /// The id that the cell goes by, stored in the file or not.
    pub fn id(&self) -> &'a str {
        &self.entry.id
    }

    /// Its place in the notebook, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What the cell holds.
    pub fn cell_type(&self) -> CellType {
        self.entry.cell_type
    }

    /// The source as one text, with the line ends that the file has.
    pub fn source(&self) -> String {
        self.entry.source()
    }

    /// The stored outputs; none for a cell that is not code.
    pub fn outputs(&self) -> &'a [Value] {
        self.entry.value.get("outputs").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The kernel's count of the run that left the outputs.
    pub fn execution_count(&self) -> Option<i64> {
        self.entry.value.get("execution_count").and_then(integer)
    }

    /// The cell's metadata; an empty object where the file has none.
    pub fn metadata(&self) -> Value {
        self.entry.value.get("metadata").cloned().unwrap_or_else(|| Map::new().into())
    }

    /// The first line that is not blank, to know the cell by.
    pub fn first_line(&self) -> String {
        let source = self.source();
        source.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    }

    /// The cell as the document has it.
    pub fn value(&self) -> &'a Value {
        &self.entry.value
    }
}

/// A cell as a notebook holds it: the document's JSON and the id that it goes by.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) cell_type: CellType,
    pub(super) value: Value,
}

impl Entry {
    /// Takes a cell over from a document; the id is empty when the cell has none.
    pub(super) fn read(index: usize, value: Value) -> Result<Self, NotebookError> {
        let wrong = |what: &str| NotebookError::NotANotebook(format!("cell {index} {what}"));
        let name = value.get("cell_type").and_then(Value::as_str).ok_or_else(|| wrong("has no `cell_type`"))?;
        let cell_type = name.parse().map_err(|_| wrong("has an unknown `cell_type`"))?;
        if !value.get("source").is_some_and(source::is_text) {
            return Err(wrong("has no `source` text"));
        }
        if value.get("outputs").is_some_and(|outputs| !outputs.is_array()) {
            return Err(wrong("has `outputs` that are no list"));
        }
        if value.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
            return Err(wrong("has `metadata` that is no object"));
        }
        let id = ids::stored(&value).unwrap_or_default().to_owned();
        Ok(Self { id, cell_type, value })
    }

    pub(super) fn source(&self) -> String {
        self.value.get("source").map(source::joined).unwrap_or_default()
    }

    pub(super) fn set(&mut self, key: &str, value: Value) {
        if let Value::Object(cell) = &mut self.value {
            cell.insert(key.to_owned(), value);
        }
    }
}

/// An integer, also where a JSON library wrote it as `4.0`.
pub(super) fn integer(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number well inside i64")]
    let from_float = |number: f64| (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(from_float))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(value: Value) -> Result<Entry, NotebookError> {
        Entry::read(3, value)
    }

    #[test]
    fn a_view_tells_what_the_cell_holds() {
        let value = json!({"cell_type": "code", "execution_count": 4.0, "id": "a", "source": ["\n", "  x\r\n", "y"]});
        let entry = entry(value).unwrap();
        let cell = Cell::new(2, &entry);
        assert_eq!((cell.id(), cell.index(), cell.cell_type()), ("a", 2, CellType::Code));
        assert_eq!(cell.source(), "\n  x\r\ny");
        assert_eq!(cell.first_line(), "  x");
        assert_eq!(cell.execution_count(), Some(4));
        assert!(cell.outputs().is_empty());
        assert_eq!(cell.metadata(), json!({}));
    }

    #[test]
    fn a_broken_cell_is_named_by_its_index() {
        for broken in [
            json!(7),
            json!({"source": ""}),
            json!({"cell_type": "heading", "source": ""}),
            json!({"cell_type": "code"}),
            json!({"cell_type": "code", "source": ["a", 1]}),
            json!({"cell_type": "code", "source": "", "outputs": {}}),
            json!({"cell_type": "raw", "source": "", "metadata": []}),
        ] {
            let error = entry(broken.clone()).unwrap_err();
            assert!(
                matches!(&error, NotebookError::NotANotebook(what) if what.starts_with("cell 3 ")),
                "{broken}: {error}"
            );
        }
    }

    #[test]
    fn cell_types_have_the_names_of_nbformat() {
        for name in ["code", "markdown", "raw"] {
            assert_eq!(name.parse::<CellType>().unwrap().to_string(), name);
        }
        assert!(matches!("Code".parse::<CellType>(), Err(EditError::Invalid(_))));
    }
}
