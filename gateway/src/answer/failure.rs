//! What a tool answers when it could not do what it was asked.

use std::fmt;

use serde_json::{Map, Value};

use super::{Code, Part};
use crate::nbformat::{EditError, NotebookError};

/// A refusal or a breakdown: a code for programs, one sentence that says what to do next for everyone.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What kind of failure it is.
    pub code: Code,
    /// One sentence that says what to do next.
    pub message: String,
    /// What was produced before it went wrong.
    pub parts: Vec<Part>,
    /// Further keys of the structured half.
    pub extra: Box<Map<String, Value>>,
    /// Further sentences, each a text block of its own.
    pub notes: Vec<String>,
    /// The cells acted on.
    pub cell_ids: Vec<String>,
}

impl Failure {
    /// A failure with nothing produced so far.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            parts: Vec::new(),
            extra: Box::default(),
            notes: Vec::new(),
            cell_ids: Vec::new(),
        }
    }

    /// Adds a key to the structured half.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// Says what was produced before it went wrong.
    #[must_use]
    pub fn parts(mut self, parts: Vec<Part>) -> Self {
        self.parts = parts;
        self
    }

    /// Adds a sentence.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Names a cell that was acted on.
    #[must_use]
    pub fn cell_id(mut self, id: impl Into<String>) -> Self {
        self.cell_ids.push(id.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        let code = match &error {
            EditError::CellNotFound(..) => Code::CellNotFound,
            EditError::CellAmbiguous(..) => Code::CellAmbiguous,
            EditError::WrongType(..) => Code::CellWrongType,
            EditError::NoMatch(..) => Code::EditNoMatch,
            EditError::AmbiguousMatch(..) => Code::EditAmbiguous,
            EditError::Invalid(..) => Code::ArgumentsInvalid,
        };
        Self::new(code, error.to_string())
    }
}

impl From<NotebookError> for Failure {
    fn from(error: NotebookError) -> Self {
        Self::new(Code::NotebookInvalid, error.to_string())
    }
}
