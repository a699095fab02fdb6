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
        image::is_image(&mime_type, &data).then_some(Part::Image { mime_type, data })
    })
}

/// Text that says more than a repr does, and that goes with an image too.
fn rich_text(data: &Map<String, Value>) -> Option<String> {
    data.get("text/markdown")
        .or_else(|| data.get("text/latex").filter(|latex| !is_listing(&multiline(latex))))
        .map(|text| plain(&multiline(text)))
        .filter(|text| !text.trim().is_empty())
        .or_else(|| json(data))
        .or_else(|| chart(data))
}

/// Source code with its colours, of which there is a plain form as well.
fn is_listing(latex: &str) -> bool {
    latex.trim_start().starts_with("\\begin{Verbatim}")
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
        repr => other_text(data).unwrap_or_else(|| nothing_readable(data, repr)),
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
    let readable = data.iter().find(|(mime_type, _)| is_text(mime_type));
    let text = readable.map(|(_, value)| plain(&multiline(value))).filter(|text| !text.trim().is_empty());
    text.or_else(|| {
        let (_, value) = data.iter().find(|(mime_type, _)| mime_type.ends_with("+json") && *mime_type != WIDGET)?;
        serde_json::to_string_pretty(value).ok()
    })
}

fn is_text(mime_type: &str) -> bool {
    matches!(mime_type, "application/javascript" | "application/xml" | "application/yaml")
        || mime_type.starts_with("text/") && !matches!(mime_type, "text/plain" | "text/html")
}

/// Its model's id says nothing to a reader.
const WIDGET: &str = "application/vnd.jupyter.widget-view+json";

/// `<Figure size 640x480 with 1 Axes>`, `<IPython.core.display.HTML object>` and their like.
fn is_repr(text: &str) -> bool {
    let text = text.trim();
    text.len() < 500
        && !text.contains('\n')
        && text.strip_prefix('<').is_some_and(|rest| rest.find('>') == Some(rest.len() - 1))
}

/// A line that names the types there are, so that the output isn't passed over in silence; a repr alone is all there is.
fn nothing_readable(data: &Map<String, Value>, repr: Option<String>) -> String {
    let others = data.iter().filter(|(mime_type, _)| *mime_type != "text/plain");
    let named: Vec<_> = others
        .map(|(mime_type, value)| format!("{}, {}", plain(mime_type), size(byte_length(mime_type, value))))
        .collect();
    match (named.join("; "), repr) {
        (named, Some(repr)) if named.is_empty() => repr,
        (named, Some(repr)) => format!("[{named}: nothing to read in it] {}", repr.trim()),
        (named, None) if named.is_empty() => "[text/plain, empty]".to_owned(),
        (named, None) => format!("[{named}: nothing to read in it]"),
    }
}

fn byte_length(mime_type: &str, value: &Value) -> usize {
    match value {
        Value::String(_) | Value::Array(_) if !mime_type.ends_with("json") => {
            let text = multiline(value);
            // A short word of an unknown type is base64 as well, by chance.
            let may_be_binary = mime_type.starts_with("image/") || !mime_type.starts_with("text/") && text.len() > 64;
            let data = image::without_breaks(&text);
            if may_be_binary && image::is_base64(&data) { image::decoded_length(&data) } else { text.len() }
        }
        value => value.to_string().len(),
    }
}
