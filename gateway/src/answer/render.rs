//! nbformat outputs as a model reads them, in the cell's order.
//!
//! Every output leaves something: text or an image where there is one, else a line that names the type
//! and size. An object's repr is used only where nothing better exists.

mod error;
mod html;
mod mime;
mod plotly;
mod svg;
mod vega;

use serde_json::Value;

use super::{Part, plain};

/// The outputs, ready for a model.
pub fn render(outputs: &[Value]) -> Vec<Part> {
    outputs.iter().flat_map(output).collect()
}

fn output(output: &Value) -> Vec<Part> {
    match output.get("output_type").and_then(Value::as_str).unwrap_or_default() {
        "stream" => stream(output),
        "error" => vec![Part::Text(error::error(output))],
        "display_data" | "execute_result" => mime::bundle(output),
        other => vec![Part::Text(format!("[an output of the unknown type '{}']", plain(other)))],
    }
}

fn stream(output: &Value) -> Vec<Part> {
    let text = plain(&multiline(&output["text"]));
    if text.is_empty() {
        return Vec::new();
    }
    let is_stderr = output["name"] == "stderr";
    let lost = is_stderr && LOST.iter().any(|note| text.contains(note));
    let text = if is_stderr { format!("[stderr] {text}") } else { text };
    let mut parts = vec![Part::Text(text)];
    if lost {
        parts.push(Part::Text(OUTPUT_LOST.to_owned()));
    }
    parts
}

/// What a Jupyter server says instead of what it dropped.
const LOST: [&str; 2] = ["IOPub data rate exceeded", "IOPub message rate exceeded"];
const OUTPUT_LOST: &str = "[output lost: the Jupyter server dropped what came faster than its limit; print less at once, or write it to a file]";

/// A string that nbformat may hold as a list of its lines.
fn multiline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().map(|line| line.as_str().unwrap_or_default()).collect(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
