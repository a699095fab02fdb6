//! Plotly charts in words.

use std::fmt::Write as _;

use serde_json::Value;

use crate::answer::image::decoded_length;
use crate::answer::plain;
use crate::answer::text::plural;

/// As many traces are described.
const TRACES: usize = 10;

/// Title, number of traces and points, then a line a trace.
pub(super) fn chart(chart: &Value) -> String {
    let traces = chart["data"].as_array().map_or(&[][..], Vec::as_slice);
    let points: usize = traces.iter().map(points).sum();
    let mut said = String::from("[Plotly chart");
    if let Some(title) = title(&chart["layout"]["title"]) {
        let _ = write!(said, " \"{title}\"");
    }
    let _ = write!(said, ": {}, {}]", plural(traces.len(), "trace"), plural(points, "point"));
    for trace in traces.iter().take(TRACES) {
        let _ = write!(said, "\n- {}", describe(trace));
    }
    if traces.len() > TRACES {
        let _ = write!(said, "\n- and {} more", traces.len() - TRACES);
    }
    said
}

fn title(title: &Value) -> Option<String> {
    let text = title.as_str().or_else(|| title["text"].as_str())?;
    Some(plain(text)).filter(|text| !text.is_empty())
}

fn describe(trace: &Value) -> String {
    let mut said = plain(trace["type"].as_str().unwrap_or("scatter"));
    if let Some(name) = trace["name"].as_str().filter(|name| !name.is_empty()) {
        let _ = write!(said, " \"{}\"", plain(name));
    }
    let _ = write!(said, ", {}", plural(points(trace), "point"));
    for axis in ["x", "y", "z", "labels", "values"] {
        if let Some(range) = range(&trace[axis]) {
            let _ = write!(said, ", {axis} {range}");
        }
    }
    said
}

/// How many points a trace has: the length of its longest axis.
fn points(trace: &Value) -> usize {
    ["x", "y", "z", "values", "labels", "lat", "locations", "r"]
        .iter()
        .map(|axis| length(&trace[*axis]))
        .max()
        .unwrap_or(0)
}

fn length(axis: &Value) -> usize {
    if let Some(values) = axis.as_array() {
        return values.len();
    }
    // Plotly 6 packs numbers: their type names end in the number of bytes (f8, i4, u2).
    let digits = axis["dtype"].as_str().unwrap_or_default().trim_start_matches(char::is_alphabetic);
    let width = digits.parse().unwrap_or(1_usize).max(1);
    axis["bdata"].as_str().map_or(0, |data| decoded_length(data) / width)
}

/// The first values, or the first and the last of many.
fn range(axis: &Value) -> Option<String> {
    let values = axis.as_array().filter(|values| !values.is_empty())?;
    let shown = |value: &Value| match value {
        Value::String(text) => plain(&text.chars().take(40).collect::<String>()),
        Value::Array(_) | Value::Object(_) => "...".to_owned(),
        value => value.to_string(),
    };
    if values.len() <= 5 {
        return Some(values.iter().map(shown).collect::<Vec<_>>().join(" "));
    }
    Some(format!("{} ... {}", shown(values.first()?), shown(values.last()?)))
}
