use serde_json::{Value, json};

use super::*;
use crate::nbformat::{CellRef, CellType, Edit};

/// A notebook of nbformat 4.4, keys in another order than Jupyter's, with all that gets lost easily.
const OLD_MINOR: &str = r##"{"nbformat": 4, "nbformat_minor": 4,
 "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "custom": [1.50, 0.1]},
 "cells": [
  {"cell_type": "markdown", "attachments": {"dot.png": {"image/png": "iVBORw0KGgo="}}, "metadata": {"tags": ["intro"]},
   "source": ["# Season report\n", "\n", "![map](attachment:dot.png)"]},
  {"cell_type": "code", "execution_count": 4, "metadata": {"collapsed": true, "jupyter": {"source_hidden": true}, "tags": ["parameters"]},
   "outputs": [{"data": {"text/plain": ["22"]}, "execution_count": 4, "metadata": {}, "output_type": "execute_result"}],
   "source": "rain = [3, 0, 12, 7]\nsum(rain)"},
  {"cell_type": "raw", "metadata": {"format": "text/latex"}, "source": ["kept as typed: \\alpha & <b>"]},
  {"cell_type": "code", "execution_count": 5, "metadata": {}, "outputs": [], "source": ["max(rain)"]}
 ]}"##;

fn old_minor() -> Notebook {
    Notebook::parse(OLD_MINOR).unwrap()
}

fn index(index: i64) -> CellRef {
    CellRef { id: None, index: Some(index) }
}

fn apply(notebook: &mut Notebook, edit: &Edit) {
    let resolved = notebook.resolve(edit).unwrap();
    resolved.operations.iter().for_each(|operation| notebook.apply(operation));
}

fn minor_five(cells: &Value) -> Value {
    json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
}

fn cell(source: &str) -> Value {
    json!({"cell_type": "raw", "metadata": {}, "source": [source]})
}

#[test]
fn reading_and_saving_changes_nothing() {
    let value: Value = serde_json::from_str(OLD_MINOR).unwrap();
    assert_eq!(old_minor().to_value().to_string(), value.to_string());
}

#[test]
fn numbers_come_back_as_they_were() {
    let odd = "[31.245270191439438,5.0,1e-7,9007199254740993,-0.0]";
    let document =
        minor_five(&json!([])).to_string().replace("\"metadata\":{}", &format!("\"metadata\":{{\"x\":{odd}}}"));
    assert!(Notebook::parse(&document).unwrap().to_value().to_string().contains(odd));
}

#[test]
fn edits_of_an_old_minor_keep_it_without_any_id() {
    let mut notebook = old_minor();
    let shown: Vec<_> = notebook.cells().map(|cell| cell.cell_type().as_str()).collect();
    assert_eq!(shown, ["markdown", "code", "raw", "code"]);
    apply(&mut notebook, &Edit::Insert { index: 1, cell_type: CellType::Code, source: "1".to_owned() });
    apply(&mut notebook, &Edit::Overwrite { cell: index(4), source: "min(rain)".to_owned() });
    apply(&mut notebook, &Edit::ClearOutputs { cell: index(2) });
    apply(&mut notebook, &Edit::Move { source: index(0), target: index(2) });

    let saved = notebook.to_value();
    let sources: Vec<_> = Notebook::from_value(saved.clone()).unwrap().cells().map(|cell| cell.first_line()).collect();
    assert_eq!(sources, ["1", "rain = [3, 0, 12, 7]", "# Season report", "kept as typed: \\alpha & <b>", "min(rain)"]);
    assert_eq!(saved["nbformat_minor"], 4);
    assert!(saved["cells"].as_array().unwrap().iter().all(|cell| cell.get("id").is_none()));
    assert_eq!(saved["cells"][2]["attachments"], json!({"dot.png": {"image/png": "iVBORw0KGgo="}}));
    let kept = json!({"collapsed": true, "jupyter": {"source_hidden": true}, "tags": ["parameters"]});
    assert_eq!((&saved["cells"][1]["metadata"], &saved["cells"][1]["outputs"]), (&kept, &json!([])));
    assert_eq!(saved["cells"][3]["metadata"], json!({"format": "text/latex"}));
}

#[test]
fn stray_ids_of_an_old_minor_are_dropped_on_saving_and_go_on_naming() {
    let mut value = old_minor().to_value();
    value["cells"][3]["id"] = json!("stray");
    let mut ids = CellIds::default();
    let mut notebook = Notebook::from_value(value).unwrap();
    notebook.identify(&mut ids);
    assert_eq!(notebook.cell(3).unwrap().id(), "stray");
    let mut saved = Notebook::from_value(notebook.to_value()).unwrap();
    assert!(!saved.to_value().to_string().contains("stray"));
    saved.identify(&mut ids);
    assert_eq!(saved.cell(3).unwrap().id(), "stray");
}

#[test]
fn missing_ids_are_stored_and_stored_ones_stay() {
    let mut cells = json!([cell("a"), cell("b"), cell("c")]);
    cells[1]["id"] = json!("mine");
    cells[2]["id"] = json!(7);
    let notebook = Notebook::from_value(minor_five(&cells)).unwrap();
    let saved = notebook.to_value();
    let stored: Vec<_> = saved["cells"].as_array().unwrap().iter().map(|cell| cell["id"].as_str().unwrap()).collect();
    assert_eq!(stored, notebook.cells().map(|cell| cell.id()).collect::<Vec<_>>());
    assert_eq!(stored[1], "mine");
    for id in [stored[0], stored[2]] {
        assert!(id.len() == 8 && id.chars().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    }
}

#[test]
fn what_jupyter_made_up_while_converting_is_no_id() {
    let converted = |ids: [&str; 2]| {
        let mut cells = json!([cell("a"), cell("b")]);
        (cells[0]["id"], cells[1]["id"]) = (json!(ids[0]), json!(ids[1]));
        Notebook::from_conversion(minor_five(&cells)).unwrap()
    };
    let mut ids = CellIds::default();
    let (mut first, mut second) = (converted(["u", "v"]), converted(["x", "y"]));
    first.identify(&mut ids);
    second.identify(&mut ids);
    assert_ne!(first.cell(0).unwrap().id(), "u");
    assert_eq!(first.to_value(), second.to_value());
}

#[test]
fn a_new_notebook_has_a_kernelspec_and_no_cells() {
    let python = ("python3".to_owned(), "Python 3".to_owned(), "python".to_owned());
    let notebook = Notebook::new(&Kernelspec { name: python.0, display_name: python.1, language: python.2 });
    let saved = notebook.to_value();
    assert_eq!(
        saved,
        json!({
            "cells": [],
            "metadata": {
                "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        })
    );
    let read = Notebook::from_value(saved).unwrap();
    assert!(read.is_empty() && read.cell(0).is_none());
    assert_eq!((read.kernelspec_name(), read.language(), read.version()), (Some("python3"), Some("python"), (4, 5)));
}

#[test]
fn three_hundred_cells_keep_their_ids_when_cells_come_before_them() {
    let cells: Vec<Value> =
        (0..300).map(|n| json!({"cell_type": "code", "id": format!("c{n}"), "source": format!("v{n}")})).collect();
    let mut notebook = Notebook::from_value(minor_five(&cells.into())).unwrap();
    let c298 = CellRef { id: Some("c298".to_owned()), index: None };
    assert_eq!((notebook.len(), notebook.find(&c298)), (300, Ok(298)));
    for source in ["x", "y", "z"] {
        apply(&mut notebook, &Edit::Insert { index: 0, cell_type: CellType::Code, source: source.to_owned() });
    }
    assert_eq!(notebook.find(&c298), Ok(301));
    assert_eq!(notebook.cell(301).unwrap().source(), "v298");
}

#[test]
fn what_is_no_notebook_is_told_apart() {
    let cells_of = |cells: Value| minor_five(&cells).to_string();
    assert_eq!(Notebook::parse(" \n").unwrap_err(), NotebookError::Empty);
    assert!(matches!(Notebook::parse("{\"cells\": ["), Err(NotebookError::NotJson(_))));
    assert!(matches!(Notebook::parse(&"[".repeat(100_000)), Err(NotebookError::NotJson(_))));
    assert_eq!(Notebook::parse("{\"nbformat\": 3, \"worksheets\": []}").unwrap_err(), NotebookError::Old(3));
    assert_eq!(Notebook::parse("{\"nbformat\": 5, \"cells\": []}").unwrap_err(), NotebookError::New(5));
    for text in [
        "[]",
        "7",
        "{}",
        "{\"nbformat\": 4}",
        "{\"nbformat\": 4, \"cells\": {}}",
        "{\"nbformat\": \"4\", \"cells\": []}",
    ] {
        assert!(matches!(Notebook::parse(text), Err(NotebookError::NotANotebook(_))), "{text}");
    }
    let error = Notebook::parse(&cells_of(json!([cell("a"), {"cell_type": "heading", "source": ""}]))).unwrap_err();
    assert!(error.to_string().contains("cell 1 "), "{error}");
}

#[test]
fn operations_that_do_not_fit_change_nothing() {
    use crate::nbformat::Operation;
    let mut notebook = old_minor();
    for operation in [
        Operation::InsertCell { index: 9, cell: cell("a") },
        Operation::InsertCell { index: 0, cell: json!(null) },
        Operation::DeleteCell { index: 4 },
        Operation::MoveCell { from: 0, to: 4 },
        Operation::SetSource { index: 4, source: String::new() },
        Operation::SetOutputs { index: 0, outputs: vec![json!(1)], execution_count: Some(1) },
        Operation::SetOutput { index: 1, output: 1, data: json!({}), metadata: json!({}) },
    ] {
        notebook.apply(&operation);
        assert_eq!(notebook.to_value(), old_minor().to_value(), "{operation:?}");
    }
}
