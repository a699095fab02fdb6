//! Every kind of output, live and as it was saved: both say the same, and always something that a model can use.

use serde_json::{Value, json};

use crate::harness::{Desk, validate_notebook};

/// A red dot of each type that models take.
const DOTS: &str = "
import base64
from IPython.display import display
png = 'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4AWM4IWcDRAwQCgAh9gSJ6G4nFgAAAABJRU5ErkJggg=='
gif = 'R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw=='
webp = 'UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=='
def show(mime_type, data, **more): display({mime_type: data, **more}, raw=True)
";

/// What is run, what the answer has to say, and how many images it has.
const ZOO: [(&str, &str, usize); 40] = [
    ("print('one'); print('two')", "one\ntwo\n", 0),
    ("import sys; print('out'); print('err', file=sys.stderr)", "[stderr] err", 0),
    ("1 + 1", "2", 0),
    ("None", "", 0),
    ("'text'", "'text'", 0),
    ("x = 5;", "", 0),
    ("from IPython.display import Markdown; Markdown('# Total')", "# Total", 0),
    ("from IPython.display import Latex; Latex('$x^2$')", "$x^2$", 0),
    ("from IPython.display import Math; Math('x^2')", "x^2", 0),
    ("from IPython.display import JSON; JSON({'rows': 2})", "\"rows\": 2", 0),
    ("from IPython.display import HTML; HTML('<b>bold</b> word')", "word", 0),
    ("from IPython.display import HTML; HTML('<table><tr><td>cell 1</td></tr></table>')", "cell 1", 0),
    ("from IPython.display import HTML; HTML('<script>draw()</script>')", "[text/html, ", 0),
    ("from IPython.display import Javascript; Javascript('alert(1)')", "alert(1)", 0),
    ("from IPython.display import IFrame; IFrame('https://example.org/', 10, 10)", "[iframe: https://example.org/]", 0),
    ("from IPython.display import Audio; Audio([0.0, 0.1], rate=8000)", "[audio: audio/wav, ", 0),
    (
        "from IPython.display import SVG; SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"><text>North</text></svg>')",
        "North",
        0,
    ),
    ("from IPython.display import Code; Code('x=1', language='python')", "x=1", 0),
    ("from IPython.display import Pretty; Pretty('pretty')", "pretty", 0),
    ("show('image/png', png)", "", 1),
    ("show('image/gif', gif)", "", 1),
    ("show('image/webp', webp)", "", 1),
    ("show('image/png', 'bm90IGFuIGltYWdl')", "[image/png, 12 bytes: nothing to read in it]", 0),
    ("show('application/pdf', base64.b64encode(b'%PDF' * 600).decode())", "[application/pdf, 2.4 kB", 0),
    ("show('image/png', png, **{'text/markdown': 'a **dot**'})", "a **dot**", 1),
    ("show('application/geo+json', {'type': 'Point', 'coordinates': [1, 2]})", "\"coordinates\"", 0),
    ("show('application/x-foo+json', {'a': 1})", "\"a\": 1", 0),
    ("show('text/csv', 'a,b\\n1,2')", "a,b\n1,2", 0),
    ("show('application/x-unknown', 'zzz')", "[application/x-unknown, 3 bytes", 0),
    (
        "show('application/vnd.plotly.v1+json', {'data': [{'type': 'bar', 'y': [3, 5]}], 'layout': {'title': {'text': 'Bars'}}})",
        "[Plotly chart \"Bars\": 1 trace, 2 points]",
        0,
    ),
    (
        "show('application/vnd.vegalite.v5+json', {'mark': 'bar', 'title': 'T', 'encoding': {'x': {'field': 'year'}}})",
        "title \"T\"; mark bar; x year",
        0,
    ),
    (
        "show('application/vnd.jupyter.widget-view+json', {'model_id': 'a'}, **{'text/plain': 'IntSlider(value=7)'})",
        "IntSlider(value=7)",
        0,
    ),
    ("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "", 1),
    ("class Odd:\n    def _repr_html_(self): return '<i>odd</i> one'\nOdd()", "one", 0),
    (
        "class Bad:\n    def _repr_png_(self): return 'notbytes'\n    def __repr__(self): return 'Bad()'\nBad()",
        "Bad()",
        0,
    ),
    ("for n in range(3): print(f'{n}/3', end='\\r')", "2/3", 0),
    ("print('\\x1b[31mred\\x1b[0m \\x1b]8;;https://example.org\\x1b\\\\link\\x1b]8;;\\x1b\\\\')", "red link", 0),
    ("print('wide 你好 🎈'); print('\\u200bzero')", "wide 你好 🎈", 0),
    ("{'nested': [1, {'a': (1, 2)}]}", "{'nested': [1, {'a': (1, 2)}]}", 0),
    ("def f(): raise ValueError('bad row')\nf()", "ValueError: bad row", 0),
];

/// What an output means: Jupyter sorts the keys of JSON that it saves.
fn meant(output: &Value) -> Value {
    output.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| output.clone())
}

#[tokio::test]
async fn every_output_says_the_same_live_and_saved() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": DOTS})).await;
    for (source, words, images) in ZOO {
        let live = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": source})).await;
        assert!(live.outputs().contains(words), "{source}: {}", live.structured());
        assert_eq!((live.images().len(), live.get("images")), (images, &json!(images)), "{source}");
        assert!(!live.text().contains('\u{1b}'), "{source}");
        let saved = desk.ok("read_cell", json!({"cell_id": live.get("cell")["id"]})).await;
        // The banner and the source come first.
        let (live, saved) = (live.get("outputs").as_array().expect("outputs"), saved.get("outputs"));
        let saved = saved.as_array().expect("outputs")[2..].iter();
        assert_eq!(live.iter().map(meant).collect::<Vec<_>>(), saved.map(meant).collect::<Vec<_>>(), "{source}");
    }
    validate_notebook(&desk.path("nb.ipynb"));
}
