//! Why a file is no notebook that can be used, and why an edit was refused.

/// Why a document can't be used as a notebook. The words follow "this file can't be used:".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotebookError {
    /// Nothing is in the file.
    #[error("the file is empty; delete it, then create the notebook with use_notebook and mode \"create\"")]
    Empty,
    /// The text is not JSON; holds what the parser says.
    #[error("it is not JSON ({0}); repair the file or open another one")]
    NotJson(String),
    /// The JSON is not a notebook; holds what is wrong.
    #[error("it is not a valid notebook: {0}; repair the file or open another one")]
    NotANotebook(String),
    /// The notebook's nbformat is older than 4; Jupyter converts it.
    #[error("its nbformat {0} is older than 4; open and save it in Jupyter once, which converts it")]
    Old(u64),
    /// The notebook's nbformat is newer than 4.
    #[error("its nbformat {0} is newer than 4; save it as nbformat 4 first")]
    New(u64),
}

/// Why an edit was refused; nothing was changed. Each holds the sentence that a caller reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No cell has that id, or the index is out of range.
    #[error("{0}")]
    CellNotFound(String),
    /// Several cells have that id.
    #[error("{0}")]
    CellAmbiguous(String),
    /// The edit needs a cell of another type.
    #[error("{0}")]
    WrongType(String),
    /// The text to replace does not occur in the cell.
    #[error("{0}")]
    NoMatch(String),
    /// The text to replace occurs more than once.
    #[error("{0}")]
    AmbiguousMatch(String),
    /// The edit makes no sense for any notebook.
    #[error("{0}")]
    Invalid(String),
}
