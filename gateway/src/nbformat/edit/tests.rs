use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::nbformat::CellIds;

/// Eight code cells A to H with ids, outputs, counts and tags.
fn eight() -> Notebook {
    let cells: Vec<Value> = ('A'..='H').zip(1..).map(|(name, count)| code(name, count)).collect();
    Notebook::from_value(json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})).unwrap()
}

fn code(name: char, count: i64) -> Value {
    let shown = format!("'{name}'");
    let output = json!({
        "data": {"text/plain": [shown]}, "execution_count": count, "metadata": {}, "output_type": "execute_result",
    });
    json!({
        "cell_type": "code", "execution_count": count, "id": format!("id-{name}"), "metadata": {"tags": [name.to_string()]},
        "outputs": [output], "source": [shown],
    })
}

fn at(index: i64) -> CellRef {
    CellRef { id: None, index: Some(index) }
}

fn id(id: &str) -> CellRef {
    CellRef { id: Some(id.to_owned()), index: None }
}

fn apply(notebook: &mut Notebook, edit: &Edit) -> Result<Outcome> {
    let resolved = notebook.resolve(edit)?;
    resolved.operations.iter().for_each(|operation| notebook.apply(operation));
    Ok(resolved.outcome)
}

fn order(notebook: &Notebook) -> String {
    notebook.cells().map(|cell| cell.source().replace('\'', "")).collect()
}

/// The order of the eight cells after an edit that must succeed.
fn after(edit: &Edit) -> String {
    let mut notebook = eight();
    apply(&mut notebook, edit).unwrap();
    order(&notebook)
}

fn delete(indices: &[i64]) -> Edit {
    Edit::Delete { cells: indices.iter().copied().map(at).collect() }
}

fn shift(source: i64, target: i64) -> Edit {
    Edit::Move { source: at(source), target: at(target) }
}

fn insert(index: i64, cell_type: CellType, source: &str) -> Edit {
    Edit::Insert { index, cell_type, source: source.to_owned() }
}

#[test]
fn deleting_removes_exactly_the_named_cells_in_any_order() {
    assert_eq!(after(&delete(&[1, 2, 3])), "AEFGH");
    assert_eq!(after(&delete(&[3, 1, 2])), "AEFGH");
    assert_eq!(after(&Edit::Delete { cells: vec![id("id-H"), at(0)] }), "BCDEFG");
}

#[test]
fn deleting_is_all_or_nothing() {
    for (indices, why) in [(&[1, 1][..], "twice"), (&[-1], "0 to 7"), (&[0, 99], "0 to 7"), (&[], "which cells")] {
        let mut notebook = eight();
        let error = apply(&mut notebook, &delete(indices)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(order(&notebook), "ABCDEFGH");
    }
    let by_both = Edit::Delete { cells: vec![id("id-B"), at(1)] };
    assert!(matches!(eight().resolve(&by_both), Err(EditError::Invalid(_))));
}

#[test]
fn deleting_tells_what_was_removed_with_its_old_place() {
    let outcome = apply(&mut eight(), &delete(&[3, 1])).unwrap();
    let told: Vec<_> = outcome.cells.iter().map(|cell| (cell.id.as_str(), cell.index, cell.source.as_str())).collect();
    assert_eq!(told, [("id-B", 1, "'B'"), ("id-D", 3, "'D'")]);
}

#[test]
fn moving_takes_the_place_that_the_target_had() {
    assert_eq!(after(&shift(1, 5)), "ACDEFBGH");
    assert_eq!(after(&shift(5, 1)), "AFBCDEGH");
    assert_eq!(after(&shift(3, 3)), "ABCDEFGH");
    assert_eq!(after(&Edit::Move { source: id("id-A"), target: id("id-H") }), "BCDEFGHA");
    assert!(matches!(eight().resolve(&shift(0, 8)), Err(EditError::CellNotFound(_))));
}

#[test]
fn moving_keeps_the_cell_and_tells_where_both_are() {
    for (edit, from, to, other) in [(shift(1, 5), 1, 5, ("id-F", 4)), (shift(5, 1), 5, 1, ("id-B", 2))] {
        let mut notebook = eight();
        let before = notebook.cell(from).unwrap().value().clone();
        let outcome = apply(&mut notebook, &edit).unwrap();
        assert_eq!(notebook.cell(to).unwrap().value(), &before);
        assert_eq!((outcome.cells[0].index, outcome.cells[0].id.as_str()), (to, before["id"].as_str().unwrap()));
        assert_eq!((outcome.cells[1].id.as_str(), outcome.cells[1].index), other);
        assert_eq!(notebook.find(&id(other.0)), Ok(other.1));
    }
}

#[test]
fn moving_a_cell_to_its_own_place_changes_nothing() {
    let resolved = eight().resolve(&shift(3, 3)).unwrap();
    assert!(resolved.operations.is_empty());
    assert_eq!(resolved.outcome.cells[0].id, "id-D");
}

#[test]
fn inserting_goes_where_it_is_said() {
    assert_eq!(after(&insert(-1, CellType::Code, "'Z'")), "ABCDEFGHZ");
    assert_eq!(after(&insert(0, CellType::Markdown, "Z")), "ZABCDEFGH");
    assert_eq!(after(&insert(8, CellType::Raw, "Z")), "ABCDEFGHZ");
    for index in [9, -2, i64::MAX] {
        let error = eight().resolve(&insert(index, CellType::Code, "Z")).unwrap_err();
        assert!(matches!(&error, EditError::CellNotFound(message) if message.contains("0 to 8")), "{error}");
    }
}

#[test]
fn an_inserted_cell_is_whole_and_goes_by_the_id_that_was_told() {
    let mut notebook = eight();
    let outcome = apply(&mut notebook, &insert(-1, CellType::Code, "a\nb")).unwrap();
    let told = &outcome.cells[0];
    let stored = json!({
        "cell_type": "code", "execution_count": null, "id": told.id, "metadata": {}, "outputs": [], "source": ["a\n", "b"],
    });
    assert_eq!(notebook.to_value()["cells"][8], stored);
    assert_eq!((told.index, notebook.find(&id(&told.id))), (8, Ok(8)));
    let outcome = apply(&mut notebook, &insert(0, CellType::Markdown, "")).unwrap();
    let stored = json!({"cell_type": "markdown", "id": outcome.cells[0].id, "metadata": {}, "source": []});
    assert_eq!(notebook.to_value()["cells"][0], stored);
}

#[test]
fn an_id_names_its_cell_after_others_were_inserted() {
    let mut notebook = eight();
    apply(&mut notebook, &insert(0, CellType::Code, "Z")).unwrap();
    let outcome = apply(&mut notebook, &Edit::Overwrite { cell: id("id-D"), source: "D2".to_owned() }).unwrap();
    assert_eq!((order(&notebook).as_str(), outcome.cells[0].index), ("ZABCD2EFGH", 4));
}

#[test]
fn the_id_wins_and_an_unknown_id_is_refused() {
    let both = CellRef { id: Some("id-D".to_owned()), index: Some(0) };
    assert_eq!(after(&Edit::Overwrite { cell: both, source: "x".to_owned() }), "ABCxEFGH");
    let edit = Edit::Overwrite { cell: id("nope"), source: "x".to_owned() };
    assert!(matches!(eight().resolve(&edit), Err(EditError::CellNotFound(_))));
}

#[test]
fn overwriting_changes_the_source_alone() {
    let mut notebook = eight();
    let outcome = apply(&mut notebook, &Edit::Overwrite { cell: at(2), source: "x = 1\n".to_owned() }).unwrap();
    assert_eq!(outcome.diff.unwrap(), "@@ -1 +1 @@\n-'C'\n\\ No newline at end of cell\n+x = 1\n");
    let mut wanted = eight().to_value();
    wanted["cells"][2]["source"] = json!(["x = 1\n"]);
    assert_eq!(notebook.to_value().to_string(), wanted.to_string());
}

#[test]
fn what_is_so_already_changes_nothing() {
    let mut notebook = eight();
    for edit in [
        Edit::Overwrite { cell: at(2), source: "'C'".to_owned() },
        Edit::Replace { cell: at(2), old: "C".to_owned(), new: "C".to_owned(), replace_all: false },
    ] {
        let resolved = notebook.resolve(&edit).unwrap();
        assert_eq!((resolved.operations.len(), resolved.outcome.diff), (0, None));
    }
    apply(&mut notebook, &Edit::ClearOutputs { cell: at(2) }).unwrap();
    assert!(notebook.resolve(&Edit::ClearOutputs { cell: at(2) }).unwrap().operations.is_empty());
}

#[test]
fn clearing_removes_outputs_and_count_and_nothing_else() {
    let mut notebook = eight();
    apply(&mut notebook, &Edit::ClearOutputs { cell: at(1) }).unwrap();
    let mut wanted = eight().to_value();
    wanted["cells"][1]["outputs"] = json!([]);
    wanted["cells"][1]["execution_count"] = json!(null);
    assert_eq!(notebook.to_value().to_string(), wanted.to_string());
}

#[test]
fn only_code_cells_have_outputs() {
    let mut notebook = eight();
    apply(&mut notebook, &insert(0, CellType::Markdown, "# A")).unwrap();
    let cell = at(0);
    for edit in [
        Edit::ClearOutputs { cell: cell.clone() },
        Edit::SetOutputs { cell: cell.clone(), outputs: vec![], execution_count: None },
        Edit::SetOutput { cell, output: 0, data: json!({}), metadata: json!({}) },
    ] {
        let error = notebook.resolve(&edit).unwrap_err();
        assert!(matches!(&error, EditError::WrongType(message) if message.contains("markdown")), "{error}");
    }
}

#[test]
fn a_display_update_changes_that_output_alone() {
    let mut notebook = eight();
    let update = |output| Edit::SetOutput {
        cell: id("id-B"),
        output,
        data: json!({"text/plain": "new"}),
        metadata: json!({"a": 1}),
    };
    apply(&mut notebook, &update(0)).unwrap();
    let mut wanted = eight().to_value();
    wanted["cells"][1]["outputs"][0]["data"] = json!({"text/plain": "new"});
    wanted["cells"][1]["outputs"][0]["metadata"] = json!({"a": 1});
    assert_eq!(notebook.to_value(), wanted);
    assert!(notebook.resolve(&update(1)).unwrap().operations.is_empty());
    let stream = vec![json!({"name": "stdout", "output_type": "stream", "text": "x"})];
    apply(&mut notebook, &Edit::SetOutputs { cell: at(1), outputs: stream, execution_count: Some(9) }).unwrap();
    assert_eq!(notebook.cell(1).unwrap().execution_count(), Some(9));
    assert!(notebook.resolve(&update(0)).unwrap().operations.is_empty());
}

/// Replaces in a notebook whose one cell has that stored source.
fn replace(stored: &Value, old: &str, new: &str, replace_all: bool) -> Result<(String, String)> {
    let cell = json!({"cell_type": "markdown", "id": "a", "metadata": {}, "source": stored});
    let document = json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    let mut notebook = Notebook::from_value(document).unwrap();
    let edit = Edit::Replace { cell: id("a"), old: old.to_owned(), new: new.to_owned(), replace_all };
    let outcome = apply(&mut notebook, &edit)?;
    Ok((notebook.cell(0).unwrap().source(), outcome.diff.unwrap_or_default()))
}

#[test]
fn overlapping_hits_are_two_hits() {
    let stored = json!(["ababa = 1\n"]);
    assert!(matches!(replace(&stored, "aba", "Q", false), Err(EditError::AmbiguousMatch(_))));
    assert_eq!(replace(&stored, "aba", "Q", true).unwrap().0, "Qba = 1\n");
}

#[test]
fn a_change_of_line_ends_is_a_change() {
    let (source, diff) = replace(&json!(["x = 1\r\n", "y = 2\r\n"]), "\r\n", "\n", true).unwrap();
    assert_eq!(source, "x = 1\ny = 2\n");
    assert!(diff.contains("-x = 1\\r\n") && diff.contains("+x = 1\n"), "{diff}");
}

#[test]
fn texts_are_literal_on_both_sides() {
    let stored = json!(["price = '$1.00 (net)'\n", "pat = r'\\d+\\.\\d{2}'\n"]);
    let (source, _) = replace(&stored, "$1.00 (net)", r"\1 $& \\d", false).unwrap();
    assert_eq!(source, "price = '\\1 $& \\\\d'\npat = r'\\d+\\.\\d{2}'\n");
}

#[test]
fn unicode_is_never_normalised() {
    let stored = json!(["name = 'caf\u{e9}'      # NFC\n", "name2 = 'cafe\u{301}'    # NFD\n"]);
    let (source, diff) = replace(&stored, "caf\u{e9}", "cafe\u{301}", false).unwrap();
    assert_eq!(source.matches("cafe\u{301}").count(), 2);
    assert!(!diff.is_empty());
    let (source, _) = replace(&stored, "cafe\u{301}", "x", false).unwrap();
    assert!(source.contains("caf\u{e9}"));
}

#[test]
fn a_line_that_is_there_twice_is_ambiguous() {
    let stored = json!(["for i in range(3):\n", "    total = i\n", "    total = i\n"]);
    let error = replace(&stored, "    total = i\n", "", false).unwrap_err();
    assert!(matches!(&error, EditError::AmbiguousMatch(message) if message.contains(" 2 times")), "{error}");
}

#[test]
fn a_last_line_keeps_to_have_no_newline() {
    let (source, _) = replace(&json!(["# last line\n", "z = 26"]), "z = 26", "z = 26\ny = 25", false).unwrap();
    assert_eq!(source, "# last line\nz = 26\ny = 25");
}

#[test]
fn an_empty_old_text_is_refused_in_an_empty_cell_too() {
    assert!(matches!(replace(&json!([]), "", "x", false), Err(EditError::Invalid(_))));
}

#[test]
fn blanks_survive_reading_and_writing() {
    let blank = "tab\there and trailing spaces   \n\n";
    let mut notebook = eight();
    apply(&mut notebook, &Edit::Overwrite { cell: at(0), source: blank.to_owned() }).unwrap();
    assert_eq!(notebook.to_value()["cells"][0]["source"], json!(["tab\there and trailing spaces   \n", "\n"]));
    let read = notebook.cell(0).unwrap().source();
    assert_eq!(read, blank);
    assert!(notebook.resolve(&Edit::Overwrite { cell: at(0), source: read }).unwrap().operations.is_empty());
}

fn any_ref() -> impl Strategy<Value = CellRef> {
    (prop::option::of("id-[A-J]"), prop::option::of(-2..10_i64)).prop_map(|(id, index)| CellRef { id, index })
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let cell_type = prop::sample::select(vec![CellType::Code, CellType::Markdown, CellType::Raw]);
    prop_oneof![
        (-2..11_i64, cell_type, "[a\r\n']{0,5}").prop_map(|(index, kind, source)| insert(index, kind, &source)),
        prop::collection::vec(any_ref(), 0..4).prop_map(|cells| Edit::Delete { cells }),
        (any_ref(), any_ref()).prop_map(|(source, target)| Edit::Move { source, target }),
        (any_ref(), "[a\r\n']{0,5}").prop_map(|(cell, source)| Edit::Overwrite { cell, source }),
        (any_ref(), "['A-H]{0,2}", "[é']{0,3}", any::<bool>())
            .prop_map(|(cell, old, new, replace_all)| Edit::Replace { cell, old, new, replace_all }),
        any_ref().prop_map(|cell| Edit::ClearOutputs { cell }),
        (any_ref(), 0..3_usize).prop_map(|(cell, output)| Edit::SetOutput {
            cell,
            output,
            data: json!({}),
            metadata: json!({})
        }),
        (any_ref(), prop::option::of(0..9_i64)).prop_map(|(cell, execution_count)| Edit::SetOutputs {
            cell,
            outputs: vec![json!({})],
            execution_count
        }),
    ]
}

proptest! {
    #[test]
    fn any_edits_leave_a_sound_notebook(edits in prop::collection::vec(any_edit(), 0..12)) {
        let (mut notebook, mut ids) = (eight(), CellIds::default());
        for edit in &edits {
            let before = notebook.to_value();
            match apply(&mut notebook, edit) {
                Err(_) => prop_assert_eq!(notebook.to_value(), before),
                Ok(outcome) if !matches!(edit, Edit::Delete { .. }) => {
                    for cell in &outcome.cells {
                        prop_assert_eq!(notebook.find(&id(&cell.id)), Ok(cell.index));
                        prop_assert_eq!(&notebook.cell(cell.index).unwrap().source(), &cell.source);
                    }
                }
                Ok(_) => {}
            }
        }
        let mut again = Notebook::parse(&notebook.to_value().to_string()).unwrap();
        again.identify(&mut ids);
        prop_assert_eq!(again.to_value(), notebook.to_value());
    }
}
