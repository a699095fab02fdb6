//! Notebooks and other files, as they are on disk.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// One of the inputs under `tests/cases`.
pub(crate) fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// A JSON file.
pub(crate) fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{} is no JSON: {error}", path.display()))
}

/// The sources of a notebook's cells, in order.
pub(crate) fn sources(notebook: &Value) -> Vec<String> {
    notebook["cells"].as_array().into_iter().flatten().map(|cell| joined(&cell["source"])).collect()
}

/// A text that nbformat keeps as one string or as a list of lines.
fn joined(text: &Value) -> String {
    match text {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}
