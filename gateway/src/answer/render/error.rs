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
    let mut text = folded(&plain(&traceback));
    let raised = raised(output);
    if !text.contains(&raised) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&raised);
    }
    text
}

/// The text with frames that come again and again told of once, as a recursion without end has them.
fn folded(text: &str) -> String {
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    if paragraphs.len() < MANY {
        return text.to_owned();
    }
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(paragraph) = paragraphs.get(at) {
        let again = paragraphs[at..].iter().take_while(|other| *other == paragraph).count();
        kept.extend(std::iter::repeat_n((*paragraph).to_owned(), again.min(SHOWN)));
        if again > SHOWN {
            kept.push(format!("[the same frame {} times more]", again - SHOWN));
        }
        at += again;
    }
    kept.join("\n\n")
}

/// Tracebacks of fewer paragraphs are shown as they are.
const MANY: usize = 10;
/// So many of the same are shown.
const SHOWN: usize = 2;

fn raised(output: &Value) -> String {
    let name = plain(&multiline(&output["ename"]));
    let name = if name.trim().is_empty() { "Error".to_owned() } else { name };
    let value = plain(&multiline(&output["evalue"]));
    if value.trim().is_empty() { name } else { format!("{name}: {}", value.trim_end()) }
}
