//! MIME bundles: which of the forms of one output a model gets.

use serde_json::{Map, Value};

use super::{html, multiline, plotly, svg, vega};
use crate::answer::text::size;
use crate::answer::{Part, image, plain};

/// An image where there is one, and the best text: markdown, LaTeX, JSON, a chart in words, plain text,
/// HTML or SVG as text. What is left is named by type and size.
pub(super) fn bundle(output: &Value) -> Vec<Part> {
    let Some(data) = output["data"].as_object().filter(|data| !data.is_empty()) else {
        return vec![Part::Text("[a display without data]".to_owned())];
    };
    let image = image_part(data);
    let rich = rich_text(data);
    if image.is_some() || rich.is_some() {
        return rich.map(Part::Text).into_iter().chain(image).collect();
    }
    vec![Part::Text(fallback(data))]
}

fn image_part(data: &Map<String, Value>) -> Option<Part> {
    image::TYPES.iter().find_map(|mime_type| {
        let data = multiline(data.get(*mime_type)?);
        let data = image::without_breaks(&data).into_owned();
        let mime_type = (*mime_type).to_owned();
        image::is_base64(&data).then_some(Part::Image { mime_type, data })
    })
}

/// Text that says more than a repr does, and that goes with an image too.
fn rich_text(data: &Map<String, Value>) -> Option<String> {
    data.get("text/markdown")
        .or_else(|| data.get("text/latex"))
        .map(|text| plain(&multiline(text)))
        .filter(|text| !text.trim().is_empty())
        .or_else(|| json(data))
        .or_else(|| chart(data))
}

fn json(data: &Map<String, Value>) -> Option<String> {
    let value = data.get("application/json").or_else(|| data.get("application/geo+json"))?;
    serde_json::to_string_pretty(value).ok()
}

fn chart(data: &Map<String, Value>) -> Option<String> {
    data.iter().find_map(|(mime_type, value)| match mime_type.as_str() {
        plotly if plotly.starts_with("application/vnd.plotly.") => Some(plotly::chart(value)),
        vega if vega.starts_with("application/vnd.vega") => Some(vega::chart(vega, value)),
        _ => None,
    })
}

fn fallback(data: &Map<String, Value>) -> String {
    let text = data.get("text/plain").map(|text| plain(&multiline(text)));
    let text = text.filter(|text| !text.trim().is_empty());
    match text {
        Some(text) if !is_repr(&text) => text,
        repr => other_text(data).or(repr).unwrap_or_else(|| nothing_readable(data)),
    }
}

fn other_text(data: &Map<String, Value>) -> Option<String> {
    if let Some(value) = data.get("text/html")
        && let Some(text) = html::text(&multiline(value))
    {
        return Some(text);
    }
    if let Some(value) = data.get("image/svg+xml") {
        return Some(svg::line(&multiline(value)));
    }
    let is_text = |mime_type: &str| mime_type.starts_with("text/") && !matches!(mime_type, "text/plain" | "text/html");
    let (_, value) = data.iter().find(|(mime_type, _)| is_text(mime_type))?;
    Some(plain(&multiline(value))).filter(|text| !text.trim().is_empty())
}

/// `<Figure size 640x480 with 1 Axes>`, `<IPython.core.display.HTML object>` and their like.
fn is_repr(text: &str) -> bool {
    let text = text.trim();
    text.len() < 500
        && !text.contains('\n')
        && text.strip_prefix('<').is_some_and(|rest| rest.find('>') == Some(rest.len() - 1))
}

/// A line that names the types there are, so that the output isn't passed over in silence.
fn nothing_readable(data: &Map<String, Value>) -> String {
    let named: Vec<_> = data
        .iter()
        .map(|(mime_type, value)| format!("{}, {}", plain(mime_type), size(byte_length(mime_type, value))))
        .collect();
    format!("[{}: nothing to read in it]", named.join("; "))
}

fn byte_length(mime_type: &str, value: &Value) -> usize {
    match value {
        Value::String(_) | Value::Array(_) if !mime_type.ends_with("json") => {
            let text = multiline(value);
            let is_binary =
                !mime_type.starts_with("text/") && text.len() > 64 && image::is_base64(&image::without_breaks(&text));
            if is_binary { image::decoded_length(&image::without_breaks(&text)) } else { text.len() }
        }
        value => value.to_string().len(),
    }
}
