//! What a tool answers, before anything of it is turned into text.

use serde_json::{Map, Value};

/// One output of a cell or an execution, ready for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text as it is to be read.
    Text(String),
    /// An image of a type that models take; `data` is base64.
    Image {
        /// For example `image/png`.
        mime_type: String,
        /// Base64; line breaks in it are taken out when the answer is sealed.
        data: String,
    },
}

/// The five shapes that answers come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One text.
    Message,
    /// A table.
    Rows,
    /// Texts and images in order.
    Outputs,
    /// Keys of the tool's own.
    Object,
    /// A list of records.
    List,
}

/// The answer itself, in one of the five shapes.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// One text.
    Message(String),
    /// A table; without rows the answer is the sentence `empty`.
    Rows {
        /// The header.
        columns: &'static [&'static str],
        /// As many values a row as there are columns.
        rows: Vec<Vec<String>>,
        /// What to say when there are none.
        empty: String,
    },
    /// Texts and images in order.
    Outputs(Vec<Part>),
    /// Keys of the tool's own beside a sentence.
    Object {
        /// What happened.
        message: String,
        /// The tool's keys.
        fields: Map<String, Value>,
    },
    /// A list of records; without any the text is the sentence `empty`.
    List {
        /// JSON objects.
        records: Vec<Value>,
        /// What to say when there are none.
        empty: String,
    },
}

/// What a tool answers when it did what it was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer itself.
    pub body: Body,
    /// Further keys of the structured half.
    pub extra: Map<String, Value>,
    /// Further sentences, each a text block of its own.
    pub notes: Vec<String>,
    /// The cells acted on: the first is the one, the others came along.
    pub cell_ids: Vec<String>,
}

impl Answer {
    /// An answer of one text.
    pub fn message(text: impl Into<String>) -> Self {
        Self::new(Body::Message(text.into()))
    }

    /// A table, or the sentence `empty` when it has no rows.
    pub fn rows(columns: &'static [&'static str], rows: Vec<Vec<String>>, empty: impl Into<String>) -> Self {
        Self::new(Body::Rows { columns, rows, empty: empty.into() })
    }

    /// Texts and images in order.
    pub fn outputs(parts: Vec<Part>) -> Self {
        Self::new(Body::Outputs(parts))
    }

    /// Keys of the tool's own beside a sentence.
    pub fn object(message: impl Into<String>, fields: Map<String, Value>) -> Self {
        Self::new(Body::Object { message: message.into(), fields })
    }

    /// A list of records, whose text is the sentence `empty` when there are none.
    pub fn list(records: Vec<Value>, empty: impl Into<String>) -> Self {
        Self::new(Body::List { records, empty: empty.into() })
    }

    fn new(body: Body) -> Self {
        Self { body, extra: Map::new(), notes: Vec::new(), cell_ids: Vec::new() }
    }

    /// Adds a key to the structured half.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
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
