//! MIME bundles as nbformat takes them, whatever a kernel sent.

use serde_json::{Map, Value};

use super::text;

/// A MIME bundle: any JSON under the JSON types, text under all others.
pub(super) fn bundle(sent: Option<&Value>) -> Value {
    let entries = sent.and_then(Value::as_object).into_iter().flatten();
    let entries = entries.filter(|(_, value)| !value.is_null()).map(|(mime_type, value)| {
        let stored = if is_json(mime_type) || value.is_string() { value.clone() } else { text(value).into() };
        (mime_type.clone(), stored)
    });
    Value::Object(entries.collect())
}

/// An object, empty where none was sent.
pub(super) fn object(sent: Option<&Value>) -> Value {
    sent.filter(|sent| sent.is_object()).cloned().unwrap_or_else(|| Map::new().into())
}

/// What nbformat's schema counts as JSON.
fn is_json(mime_type: &str) -> bool {
    mime_type.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_json_types_hold_anything_but_text() {
        let sent = json!({
            "application/json": {"rows": 2},
            "application/vnd.plotly.v1+json": [1, null],
            "text/plain": "a",
            "text/x-lines": ["a\n", "b"],
            "text/x-odd": {"a": 1},
            "image/png": null,
        });
        let stored = json!({
            "application/json": {"rows": 2},
            "application/vnd.plotly.v1+json": [1, null],
            "text/plain": "a",
            "text/x-lines": "a\nb",
            "text/x-odd": "{\"a\":1}",
        });
        assert_eq!(bundle(Some(&sent)), stored);
        assert_eq!(bundle(Some(&json!("no object"))), json!({}));
        assert_eq!(object(None), json!({}));
    }
}
