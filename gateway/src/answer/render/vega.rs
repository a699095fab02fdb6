//! Vega and Vega-Lite charts in words.

use serde_json::Value;

use crate::answer::plain;
use crate::answer::text::size;

/// One line: type, size, title, mark and what is drawn against what.
pub(super) fn chart(mime_type: &str, chart: &Value) -> String {
    let mut said = vec![format!("{}, {}", plain(mime_type), size(chart.to_string().len()))];
    let title = chart["title"].as_str().or_else(|| chart["title"]["text"].as_str());
    said.extend(title.map(|title| format!("title \"{}\"", plain(title))));
    let mark = chart["mark"].as_str().or_else(|| chart["mark"]["type"].as_str());
    said.extend(mark.map(|mark| format!("mark {}", plain(mark))));
    let encoding = chart["encoding"].as_object().into_iter().flatten().take(8);
    said.extend(encoding.filter_map(|(channel, value)| {
        let field = value["field"].as_str().or_else(|| value["aggregate"].as_str())?;
        Some(plain(&format!("{channel} {field}")))
    }));
    format!("[{}]", said.join("; "))
}
