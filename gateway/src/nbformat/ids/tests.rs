use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::nbformat::{CellType, Edit, Notebook};

/// A notebook whose file stores no ids; a source that begins with `#` makes a markdown cell.
fn notebook(sources: &[&str]) -> Notebook {
    let cell = |source: &&str| {
        let cell_type = if source.starts_with('#') { "markdown" } else { "code" };
        json!({"cell_type": cell_type, "metadata": {}, "source": source})
    };
    let cells: Vec<_> = sources.iter().map(cell).collect();
    Notebook::from_value(json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})).unwrap()
}

/// The ids that the cells of such a file go by.
fn read(sources: &[&str], known: &mut CellIds) -> Vec<String> {
    let mut notebook = notebook(sources);
    notebook.identify(known);
    ids_of(&notebook)
}

fn ids_of(notebook: &Notebook) -> Vec<String> {
    notebook.cells().map(|cell| cell.id().to_owned()).collect()
}

#[test]
fn ids_stay_from_read_to_read() {
    let mut known = CellIds::default();
    let sources = ["", "a", "", "a", "#t"];
    let first = read(&sources, &mut known);
    assert_eq!(read(&sources, &mut known), first);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 5);
}

#[test]
fn cells_are_found_again_when_somebody_else_changed_the_file() {
    let mut known = CellIds::default();
    let first = read(&["a", "b", "#c", "d"], &mut known);
    let inserted = read(&["new", "a", "b", "#c", "d"], &mut known);
    assert_eq!(inserted[1..], first);
    let deleted = read(&["new", "b", "#c", "d"], &mut known);
    assert_eq!((&deleted[0], &deleted[1..]), (&inserted[0], &first[1..]));
    let moved = read(&["d", "new", "b", "#c"], &mut known);
    assert_eq!(moved, [&deleted[3], &deleted[0], &deleted[1], &deleted[2]].map(String::clone));
    let edited = read(&["d", "new", "b = 2", "#c"], &mut known);
    assert_eq!(edited, moved);
}

#[test]
fn a_cell_that_may_be_another_gets_a_new_id() {
    let mut known = CellIds::default();
    let first = read(&["a", "b", "c"], &mut known);
    let other_type = read(&["a", "#b", "c"], &mut known);
    assert_ne!(other_type[1], first[1]);
    let mut known = CellIds::default();
    let first = read(&["a", "b", "c"], &mut known);
    let unclear = read(&["a", "x", "y", "c"], &mut known);
    assert!(unclear[1..3].iter().all(|id| !first.contains(id)));
    assert_eq!((&unclear[0], &unclear[3]), (&first[0], &first[2]));
}

#[test]
fn own_edits_keep_ids_exact() {
    let mut known = CellIds::default();
    let mut edited = notebook(&["same", "same", "same"]);
    edited.identify(&mut known);
    let before = ids_of(&edited);
    let last = crate::nbformat::CellRef { id: Some(before[2].clone()), index: None };
    let first = crate::nbformat::CellRef { id: None, index: Some(0) };
    let edits = [
        Edit::Move { source: last, target: first },
        Edit::Insert { index: 1, cell_type: CellType::Code, source: "same".to_owned() },
    ];
    for edit in edits {
        let resolved = edited.resolve(&edit).unwrap();
        resolved.operations.iter().for_each(|operation| edited.apply(operation));
    }
    edited.remember(&mut known);
    let mut again = Notebook::from_value(edited.to_value()).unwrap();
    again.identify(&mut known);
    assert_eq!(ids_of(&again), ids_of(&edited));
    assert_eq!((&ids_of(&again)[0], &ids_of(&again)[2]), (&before[2], &before[0]));
}

#[test]
fn an_id_that_the_file_stores_is_not_given_to_another_cell() {
    let mut known = CellIds::default();
    let first = read(&["a", "b"], &mut known);
    let cells = json!([
        {"cell_type": "code", "metadata": {}, "source": "a"},
        {"cell_type": "code", "id": first[0], "metadata": {}, "source": "z"},
    ]);
    let mut other = Notebook::from_value(json!({"cells": cells, "nbformat": 4, "nbformat_minor": 5})).unwrap();
    other.identify(&mut known);
    assert_eq!(ids_of(&other)[1], first[0]);
    assert_ne!(ids_of(&other)[0], first[0]);
}

proptest! {
    #[test]
    fn ids_are_always_unique(files in prop::collection::vec(prop::collection::vec("#?[ab]{0,1}", 0..8), 1..6)) {
        let mut known = CellIds::default();
        for file in &files {
            let sources: Vec<&str> = file.iter().map(String::as_str).collect();
            let ids = read(&sources, &mut known);
            prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len(), sources.len());
        }
    }
}
