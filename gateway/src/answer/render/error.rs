//! Exceptions: the traceback without its colours, always with what was raised.

use serde_json::Value;

use super::multiline;
use crate::answer::plain;

/// The traceback, with `ename: evalue` as its last line where it doesn't say that itself.
pub(super) fn error(output: &Value) -> String {
    let traceback = match &output["traceback"] {
        Value::Array(frames) => frames.iter().map(multiline).collect::<Vec<_>>().join("\n"),
        other => multiline(other),
    };
    let mut text = plain(&traceback);
    let raised = raised(output);
    if !text.contains(&raised) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&raised);
    }
    text
}

fn raised(output: &Value) -> String {
    let name = plain(&multiline(&output["ename"]));
    let name = if name.trim().is_empty() { "Error".to_owned() } else { name };
    let value = plain(&multiline(&output["evalue"]));
    if value.trim().is_empty() { name } else { format!("{name}: {}", value.trim_end()) }
}
