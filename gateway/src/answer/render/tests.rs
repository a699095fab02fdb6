//! Each row is one saved output as Jupyter writes it, and what a model has to get of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn texts(outputs: &Value) -> Vec<String> {
    let text = |part| match part {
        Part::Text(text) => text,
        Part::Image { mime_type, .. } => format!("<{mime_type}>"),
    };
    render(outputs.as_array().unwrap()).into_iter().map(text).collect()
}

fn displayed(data: &Value) -> Vec<String> {
    texts(&json!([{"output_type": "display_data", "metadata": {}, "data": data}]))
}

fn stream(name: &str, text: &str) -> Value {
    json!({"output_type": "stream", "name": name, "text": text})
}

/// A PNG of four points.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4AWM4IWcDRAwQCgAh9gSJ6G4nFgAAAABJRU5ErkJggg==";

#[test]
fn z00_a_stream_in_lines() {
    let stream = json!([{"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]}]);
    assert_eq!(texts(&stream), ["one\ntwo\n"]);
}

#[test]
fn z01_both_streams_in_order_with_stderr_marked() {
    let streams = json!([stream("stdout", "out-1\n"), stream("stderr", "err-1\n"), stream("stdout", "out-2\n")]);
    assert_eq!(texts(&streams), ["out-1\n", "[stderr] err-1\n", "out-2\n"]);
}

#[test]
fn z02_an_error_without_traceback() {
    let error = json!([{"output_type": "error", "ename": "GateError", "evalue": "no traceback here", "traceback": []}]);
    assert_eq!(texts(&error), ["GateError: no traceback here"]);
}

#[test]
fn z03_a_coloured_traceback() {
    let error = json!([{"output_type": "error", "ename": "ValueError", "evalue": "bad row", "traceback": [
        "\u{1b}[31mValueError\u{1b}[39m     Traceback (most recent call last)",
        "\u{1b}[1;32m----> 1\u{1b}[0m raise ValueError('bad row')",
        "\u{1b}[31mValueError\u{1b}[39m: bad row"]}]);
    let expected =
        "ValueError     Traceback (most recent call last)\n----> 1 raise ValueError('bad row')\nValueError: bad row";
    assert_eq!(texts(&error), [expected]);
}

#[test]
fn what_was_raised_is_always_said() {
    let error = json!([
        {"output_type": "error", "ename": "E", "evalue": "said", "traceback": ["only frames"]},
        {"output_type": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []},
        {"output_type": "error"},
    ]);
    assert_eq!(texts(&error), ["only frames\nE: said", "KeyboardInterrupt", "Error"]);
}

#[test]
fn z04_to_z06_markdown_latex_and_json_before_their_reprs() {
    let markdown = json!({"text/markdown": ["# Total\n", "\n", "**22 mm**"], "text/plain": "<Markdown object>"});
    assert_eq!(displayed(&markdown), ["# Total\n\n**22 mm**"]);
    let latex = json!({"text/latex": ["$\\frac{a}{b}$"], "text/plain": ["<Latex object>"]});
    assert_eq!(displayed(&latex), ["$\\frac{a}{b}$"]);
    let data = json!({"application/json": {"ok": true, "rows": 2}, "text/plain": ["<JSON object>"]});
    assert_eq!(displayed(&data), ["{\n  \"ok\": true,\n  \"rows\": 2\n}"]);
}

#[test]
fn z07_html_only() {
    let text = displayed(&json!({"text/html": ["<p>only <b>html</b></p>"]})).remove(0);
    assert!(text.starts_with("only ") && text.contains("html"), "{text}");
}

#[test]
fn z08_a_plain_table_before_html() {
    let table = json!({"text/html": ["<table><tr><td>1</td></tr></table>"], "text/plain": ["   a  b\n", "0  1  2"]});
    assert_eq!(displayed(&table), ["   a  b\n0  1  2"]);
}

#[test]
fn html_before_a_repr() {
    let styled = json!({"text/html": "<p>styled</p>", "text/plain": "<pandas.io.formats.style.Styler at 0x7f>"});
    assert_eq!(displayed(&styled), ["styled"]);
    let nothing = json!({"text/html": "<script>x()</script>", "text/plain": "<Map object>"});
    assert_eq!(displayed(&nothing), ["[text/html, 20 bytes: nothing to read in it] <Map object>"]);
    assert_eq!(displayed(&json!({"text/plain": "<Map object>"})), ["<Map object>"]);
    assert_eq!(displayed(&json!({"text/plain": ""})), ["[text/plain, empty]"]);
}

#[test]
fn what_plays_or_frames_something_is_named() {
    let html =
        |page: &str| displayed(&json!({"text/html": page, "text/plain": "<IPython.lib.display.X object>"})).remove(0);
    let frame =
        "\n        <iframe\n            width=\"400\"\n            src=\"https://example.org/a\"\n        ></iframe>\n";
    assert_eq!(html(frame), "[iframe: https://example.org/a]");
    let audio = "\n <audio  controls=\"controls\" >\n <source src=\"data:audio/wav;base64,UklGRg\" type=\"audio/wav\" />\n Your browser does not support the audio element.\n </audio>\n";
    assert_eq!(html(audio), "[audio: audio/wav, 28 bytes]");
    assert_eq!(html("<video src='a.mp4' controls>Your browser does not support it</video>"), "[video: a.mp4]");
    assert!(html("<p>words before</p><iframe src='x'></iframe> and more words").contains("words before"));
}

#[test]
fn a_type_that_nobody_knows_is_read_where_it_is_text_or_json() {
    let foo = json!({"application/x-foo+json": {"a": 1}, "text/plain": "<Foo object>"});
    assert_eq!(displayed(&foo), ["{\n  \"a\": 1\n}"]);
    let script =
        json!({"application/javascript": "alert(1)", "text/plain": "<IPython.core.display.Javascript object>"});
    assert_eq!(displayed(&script), ["alert(1)"]);
    let code = json!({"text/latex": "\\begin{Verbatim}[x]\n\\PY{n}{x}", "text/html": "<p>x</p>", "text/plain": "x=1"});
    assert_eq!(displayed(&code), ["x=1"]);
    let pdf = json!({"application/pdf": "A".repeat(8_000), "text/plain": "<PDF obj>"});
    assert_eq!(displayed(&pdf), ["[application/pdf, 6.0 kB: nothing to read in it] <PDF obj>"]);
}

#[test]
fn z09_text_image_text_without_line_breaks_in_base64() {
    let data = json!({"image/png": format!("{PNG}\n"), "text/plain": "<Figure size 2x2>"});
    let figure = json!({"output_type": "display_data", "metadata": {}, "data": data});
    let outputs = [stream("stdout", "before\n"), figure, stream("stdout", "after\n")];
    let image = Part::Image { mime_type: "image/png".into(), data: PNG.into() };
    assert_eq!(render(&outputs), [Part::Text("before\n".into()), image, Part::Text("after\n".into())]);
}

#[test]
fn z10_jpeg_is_an_image_and_svg_is_a_line() {
    assert_eq!(
        displayed(&json!({"image/jpeg": "/9j/4AAQ", "text/plain": "<jpeg>"})),
        ["[image/jpeg, 6 bytes: nothing to read in it] <jpeg>"]
    );
    let jpeg = "/9j/4AAQSkZJRgABAQAAAQABAAD/2Q==";
    assert_eq!(displayed(&json!({"image/jpeg": jpeg, "text/plain": "<jpeg>"})), ["<image/jpeg>"]);
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8\"><style>a</style><text>North</text></svg>";
    let line = displayed(&json!({"image/svg+xml": [svg], "text/plain": ["<svg>"]})).remove(0);
    assert!(line.starts_with("[image/svg+xml, ") && line.ends_with("\nNorth"), "{line}");
    assert_eq!(displayed(&json!({"image/svg+xml": svg, "image/png": PNG})), ["<image/png>"]);
}

#[test]
fn z11_plotly_in_words() {
    let chart = json!({"data": [{"type": "bar", "x": ["a", "b"], "y": [3, 5]}], "layout": {"title": {"text": "Bars"}}});
    let bundle = json!({"application/vnd.plotly.v1+json": chart, "text/html": ["<div>plot</div>"]});
    let expected = "[Plotly chart \"Bars\": 1 trace, 2 points]\n- bar, 2 points, x a b, y 3 5";
    assert_eq!(displayed(&bundle), [expected]);
    let packed = json!({"data": [{"name": "n", "y": {"dtype": "f8", "bdata": "AAAAAAAA8D8AAAAAAAAAQA=="}}]});
    let bundle = json!({"application/vnd.plotly.v1+json": packed});
    assert_eq!(displayed(&bundle), ["[Plotly chart: 1 trace, 2 points]\n- scatter \"n\", 2 points"]);
}

#[test]
fn z12_a_widget_by_its_text() {
    let view = "application/vnd.jupyter.widget-view+json";
    assert_eq!(
        displayed(&json!({view: {"model_id": "abc123"}, "text/plain": ["IntSlider(value=7)"]})),
        ["IntSlider(value=7)"]
    );
    assert_eq!(displayed(&json!({view: {"model_id": "abc"}})), [format!("[{view}, 18 bytes: nothing to read in it]")]);
}

#[test]
fn z13_a_progress_bar_is_one_line() {
    let bar = "  0%|          | 0/3\r 33%|###       | 1/3\r100%|##########| 3/3\n";
    assert_eq!(texts(&json!([stream("stderr", bar)])), ["[stderr] 100%|##########| 3/3\n"]);
}

#[test]
fn z14_cursor_codes_and_links() {
    let text = "outer 1\n  inner\n\u{1b}[A\u{1b}[2Kouter 2\u{1b}[?25l\u{1b}[?25h\n\u{1b}]8;;https://example.org\u{1b}\\link\u{1b}]8;;\u{1b}\\\nplain [0-9]* stays\n";
    assert_eq!(texts(&json!([stream("stdout", text)])), ["outer 1\nouter 2\nlink\nplain [0-9]* stays\n"]);
}

#[test]
fn z15_no_output() {
    assert!(render(&[]).is_empty());
    assert!(render(&[stream("stdout", "")]).is_empty());
}

#[test]
fn z16_an_unknown_type_is_named() {
    assert_eq!(
        displayed(&json!({"application/x-unknown": "zzz"})),
        ["[application/x-unknown, 3 bytes: nothing to read in it]"]
    );
    assert_eq!(
        displayed(&json!({"application/pdf": "A".repeat(8_000)})),
        ["[application/pdf, 6.0 kB: nothing to read in it]"]
    );
    assert_eq!(displayed(&json!({})), ["[a display without data]"]);
    assert_eq!(
        texts(&json!([{"output_type": "odd"}, null])),
        ["[an output of the unknown type 'odd']", "[an output of the unknown type '']"]
    );
}

#[test]
fn vega_in_words() {
    let chart = json!({"mark": "bar", "title": "T", "encoding": {"x": {"field": "year"}, "y": {"aggregate": "count"}}});
    let bundle = json!({"application/vnd.vegalite.v5+json": chart, "text/plain": "<VegaLite 5 object>"});
    let text = displayed(&bundle).remove(0);
    assert!(text.starts_with("[application/vnd.vegalite.v5+json, "), "{text}");
    assert!(text.ends_with("title \"T\"; mark bar; x year; y count]"), "{text}");
}

#[test]
fn an_image_that_is_none_is_no_image_block() {
    assert_eq!(
        displayed(&json!({"image/png": "<not base64>", "text/plain": "<Figure>"})),
        ["[image/png, 12 bytes: nothing to read in it] <Figure>"]
    );
    assert_eq!(displayed(&json!({"image/png": "??"})), ["[image/png, 2 bytes: nothing to read in it]"]);
}

#[test]
fn output_that_the_server_dropped_is_said_to_be_lost() {
    let note = "\nIOPub data rate exceeded.\nThe Jupyter server will temporarily stop sending output\n";
    let texts = texts(&json!([stream("stderr", note)]));
    assert!(texts[1].starts_with("[output lost: "), "{texts:?}");
}

#[test]
fn no_escape_is_left_in_any_text() {
    for mime_type in ["text/plain", "text/markdown", "text/latex", "text/html", "image/svg+xml", "text/csv"] {
        let texts = displayed(&json!({mime_type: "\u{1b}[31mred\u{1b}[0m \u{9b}x"}));
        assert!(!texts[0].contains(['\u{1b}', '\u{9b}']) && texts[0].contains("red"), "{mime_type}: {texts:?}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "",
        "x",
        "<b>",
        "\u{1b}[2K",
        "é\n",
        "AAAA",
        "<svg>",
        "stream",
        "error",
        "display_data",
    ]);
    let leaf = prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from), word.prop_map(Value::from)];
    let key = prop::sample::select(vec![
        "output_type",
        "text",
        "name",
        "data",
        "ename",
        "evalue",
        "traceback",
        "text/html",
        "text/plain",
        "image/png",
        "image/svg+xml",
        "application/json",
        "application/vnd.plotly.v1+json",
        "application/vnd.vega.v5+json",
        "layout",
        "title",
        "encoding",
        "x",
        "bdata",
        "dtype",
    ]);
    leaf.prop_recursive(4, 40, 8, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let map = prop::collection::vec((key.clone().prop_map(str::to_owned), inner), 0..8);
        prop_oneof![list, map.prop_map(|pairs| Value::Object(pairs.into_iter().collect()))]
    })
}

proptest! {
    #[test]
    fn anything_can_be_rendered(outputs in prop::collection::vec(any_value(), 0..4), data in any_value()) {
        render(&outputs);
        let shown = render(&[json!({"output_type": "display_data", "data": data})]);
        prop_assert!(!shown.is_empty(), "a display is never passed over in silence");
    }
}
