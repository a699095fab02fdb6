//! Text as nbformat stores it: one string, or a list of lines that keep their line ends.

use serde_json::Value;

/// The text of a stored string or list of lines; what is no text counts as nothing.
pub(super) fn joined(stored: &Value) -> String {
    match stored {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Whether nbformat takes this as text.
pub(super) fn is_text(stored: &Value) -> bool {
    match stored {
        Value::String(_) => true,
        Value::Array(lines) => lines.iter().all(Value::is_string),
        _ => false,
    }
}

/// The list of lines under which a text is stored; a line ends after its `\n`.
pub(super) fn lines(text: &str) -> Value {
    text.split_inclusive('\n').map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_keep_their_ends_and_join_to_the_same_text() {
        assert_eq!(lines(""), json!([]));
        assert_eq!(lines("a\r\nb\rc"), json!(["a\r\n", "b\rc"]));
        assert_eq!(lines("tab\t  \n\n"), json!(["tab\t  \n", "\n"]));
        for text in ["", "\n", "a", "a\n", "a\r\n\u{2028}b\n\n  "] {
            assert_eq!(joined(&lines(text)), text);
        }
    }

    #[test]
    fn only_strings_and_lists_of_strings_are_text() {
        assert!(is_text(&json!("a")) && is_text(&json!([])) && is_text(&json!(["a\n", "b"])));
        assert!(!is_text(&json!(null)) && !is_text(&json!(["a", 1])) && !is_text(&json!({})));
    }
}
