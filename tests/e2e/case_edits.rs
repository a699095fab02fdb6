//! Cases 01, 04, 12 and 14: edits that touch what they name and nothing else.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Client, Desk, case, read_json, sources, validate_notebook};

#[tokio::test]
async fn case_01_a_notebook_without_ids_stays_valid_and_loses_nothing() {
    let desk = Desk::new().await;
    let file = desk.open_case("01_v44_no_ids.ipynb").await;
    let read = desk.ok("read_notebook", json!({"notebook_name": "nb", "limit": 0})).await;
    let ids = |read: &Value| {
        read["cells"].as_array().unwrap().iter().map(|cell| cell["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = ids(read.structured());
    assert_eq!(
        ids(desk.ok("read_notebook", json!({"notebook_name": "nb"})).await.structured()),
        before,
        "ids differ from read to read"
    );

    let inserted =
        desk.ok("insert_cell", json!({"cell_index": 1, "cell_type": "code", "cell_source": "new = 1"})).await;
    assert_valid_and_one_policy(&file);
    desk.ok("overwrite_cell_source", json!({"cell_index": 3, "cell_source": "over = 1"})).await;
    assert_valid_and_one_policy(&file);
    desk.ok("clear_cell_output", json!({"cell_index": 2})).await;
    assert_valid_and_one_policy(&file);
    desk.ok("move_cell", json!({"source_index": 0, "target_index": 2})).await;
    assert_valid_and_one_policy(&file);

    // The ids of the start still name the same cells.
    for (id, words) in before.iter().zip(["# Season report", "rain = ", "over = 1", "max(rain)"]) {
        let source = desk.ok("read_cell", json!({"cell_id": id})).await.get("source").as_str().unwrap().to_owned();
        assert!(source.contains(words), "{id} names {source:?} now");
    }
    assert_eq!(desk.ok("read_cell", json!({"cell_id": inserted.cell_id()})).await.get("source"), "new = 1");

    let notebook = desk.read("nb.ipynb");
    let types: Vec<&str> =
        notebook["cells"].as_array().unwrap().iter().map(|cell| cell["cell_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["code", "code", "markdown", "raw", "code"]);
    let kept = notebook.to_string();
    for part in [
        "dot.png",
        "iVBORw0KGgo",
        "\"intro\"",
        "\"parameters\"",
        "\"collapsed\":true",
        "\"source_hidden\":true",
        "text/latex",
    ] {
        assert!(kept.contains(part), "{part} is lost");
    }
    assert_eq!(notebook["cells"][1]["outputs"], json!([]));
    assert_eq!(notebook["cells"][4]["outputs"][0]["data"]["text/plain"], json!(["12"]));
}

/// Either still 4.4 with no id at all, or 4.5 with one on every cell.
fn assert_valid_and_one_policy(file: &Path) {
    validate_notebook(file);
    let notebook = read_json(file);
    let with_id = notebook["cells"].as_array().unwrap().iter().filter(|cell| cell.get("id").is_some()).count();
    match notebook["nbformat_minor"].as_u64() {
        Some(4) => assert_eq!(with_id, 0),
        Some(5) => assert_eq!(with_id, notebook["cells"].as_array().unwrap().len()),
        other => panic!("minor {other:?}"),
    }
}

#[tokio::test]
async fn case_01_the_same_four_steps_in_order_give_the_cells_of_the_case() {
    let desk = Desk::new().await;
    desk.open_case("01_v44_no_ids.ipynb").await;
    let cells = desk.read("nb.ipynb")["cells"].clone();
    desk.ok("move_cell", json!({"source_index": 0, "target_index": 2})).await;
    let moved = desk.read("nb.ipynb")["cells"].clone();
    assert_eq!(moved, json!([cells[1], cells[2], cells[0], cells[3]]), "a move changed a cell");
}

async fn edit(desk: &Desk, cell: &str, old: &str, new: &str, all: bool) -> crate::harness::Reply {
    let arguments = json!({"cell_id": cell, "old_string": old, "new_string": new, "replace_all": all});
    desk.client.call("edit_cell_source", arguments).await
}

#[tokio::test]
async fn case_04_text_is_found_and_stored_as_it_stands() {
    let desk = Desk::new().await;
    let file = desk.open_case("04_edit_traps.ipynb").await;
    let source = |index: usize| sources(&read_json(&file))[index].clone();

    edit(&desk, "overlap", "aba", "Q", false).await.refused(&["edit.ambiguous"]).says("2");
    assert_eq!(source(0), "ababa = 1\n");
    edit(&desk, "overlap", "aba", "Q", true).await.ok();
    assert_eq!(source(0), "Qba = 1\n");

    let changed = edit(&desk, "crlf", "\r\n", "\n", true).await.ok();
    assert_eq!(source(1), "x = 1\ny = 2\n");
    assert!(changed.get("result").as_str().unwrap().contains("\\r"), "the diff hides the change: {}", changed.text());

    edit(&desk, "regexy", "$1.00 (net)", "\\1 $& \\\\d", false).await.ok();
    assert_eq!(source(2), "price = '\\1 $& \\\\d'\npat = r'\\d+\\.\\d{2}'\n");

    edit(&desk, "norm", "caf\u{e9}", "caf\u{e9}1", false).await.ok();
    edit(&desk, "norm", "cafe\u{301}", "cafe\u{301}2", false).await.ok();
    assert_eq!(source(3), "name = 'caf\u{e9}1'      # NFC\nname2 = 'cafe\u{301}2'    # NFD\n");

    edit(&desk, "repeat", "    total = i\n", "", false).await.refused(&["edit.ambiguous"]).says("2");
    edit(&desk, "nonl", "z = 26", "z = 26\nw = 1", false).await.ok();
    assert_eq!(source(5), "# last line has no newline\nz = 26\nw = 1");

    edit(&desk, "empty", "", "x", false).await.refused(&["edit.no_match", "arguments.invalid"]);
    edit(&desk, "nonl", "not there", "x", false).await.refused(&["edit.no_match"]);

    let read = desk.ok("read_cell", json!({"cell_id": "blank"})).await.get("source").clone();
    desk.ok("overwrite_cell_source", json!({"cell_id": "blank", "cell_source": read})).await;
    assert_eq!(source(6), "tab\there and trailing spaces   \n\n");
    assert_eq!(source(7), "");
    validate_notebook(&file);
}

#[tokio::test]
async fn case_12_pages_join_without_gap_and_an_id_outlives_inserts() {
    let desk = Desk::new().await;
    desk.open_case("12_300_cells.ipynb").await;
    let mut indices = Vec::new();
    for start in (0..300).step_by(64) {
        let page = desk.ok("read_notebook", json!({"notebook_name": "nb", "start_index": start, "limit": 64})).await;
        assert_eq!(page.get("total"), 300);
        assert_eq!(page.get("start_index"), start);
        indices.extend(page.get("cells").as_array().unwrap().iter().map(|cell| cell["index"].as_u64().unwrap()));
    }
    assert_eq!(indices, (0..300).collect::<Vec<_>>());

    let brief = desk.ok("read_notebook", json!({"notebook_name": "nb", "limit": 0})).await;
    assert_eq!(brief.get("cells").as_array().map(Vec::len), Some(300));
    assert!(brief.text().chars().count() < 100_000, "a brief read costs too much");
    let page = desk.ok("read_notebook", json!({"notebook_name": "nb"})).await;
    assert_eq!(page.get("cells").as_array().map(Vec::len), Some(20));
    assert!(
        page.text().contains("300") || page.text().contains("280"),
        "it does not say how many remain: {}",
        page.text()
    );

    let read = desk.ok("read_cell", json!({"cell_id": "c298"})).await;
    assert_eq!(read.get("cell")["index"], 298);
    assert_eq!(read.get("source"), "v298 = 298\nv298 ** 2");
    assert!(read.outputs().contains("88804"));
    for source in ["a", "b", "c"] {
        desk.ok("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": source})).await;
    }
    let edited = desk
        .ok(
            "edit_cell_source",
            json!({"cell_id": "c298", "old_string": "298", "new_string": "299", "replace_all": true}),
        )
        .await;
    assert_eq!(edited.get("cell")["index"], 301);
    assert_eq!(sources(&desk.read("nb.ipynb"))[301], "v299 = 299\nv299 ** 2");
}

/// The cells' letters, as the case spells orders.
fn order(notebook: &Value) -> String {
    sources(notebook).iter().map(|source| source.trim_matches('\'').to_owned()).collect()
}

#[tokio::test]
async fn case_14_every_operation_leaves_the_order_of_the_case() {
    let desk = Desk::new().await;
    let operations = read_json(&case("14_ops.json"));
    let mut tried = 0;
    for (number, operation) in operations.as_array().unwrap().iter().enumerate() {
        let (Some(tool), Some(_)) = (operation["call"].as_str(), operation.get("args")) else { continue };
        if tool.starts_with("edit_by") {
            continue;
        }
        tried += 1;
        let name = format!("op{number}");
        let file = desk.open_copy(&case("14_eight_cells.ipynb"), &name).await;
        let before = read_json(&file);
        let mut arguments = operation["args"].clone();
        arguments["notebook_name"] = json!(name);
        let reply = desk.client.call(tool, arguments).await;
        let after = read_json(&file);
        let refused = operation["refused"] == true || operation.get("order_if_refused").is_some();
        assert_eq!(reply.is_error(), refused, "{operation}: {}", reply.structured());
        if refused {
            assert_eq!(after, before, "{operation} was refused and changed the file");
            continue;
        }
        assert_eq!(order(&after), operation["order"].as_str().unwrap(), "{operation}");
        assert_same_cells(&before, &after);
        validate_notebook(&file);
    }
    assert_eq!(tried, 12);
}

/// Every cell that is in both is the same in both, to the last key.
fn assert_same_cells(before: &Value, after: &Value) {
    for cell in after["cells"].as_array().unwrap() {
        if let Some(old) = before["cells"].as_array().unwrap().iter().find(|old| old["id"] == cell["id"]) {
            assert_eq!(old, cell);
        }
    }
}

#[tokio::test]
async fn case_14_an_id_names_its_cell_whatever_others_insert() {
    let desk = Desk::new().await;
    desk.open_case("14_eight_cells.ipynb").await;
    desk.ok("read_cell", json!({"cell_id": "id-D"})).await;
    let other = Client::connect(crate::harness::shared().url()).await;
    other.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
    let path = format!("{}/nb.ipynb", desk.folder());
    other.call("use_notebook", json!({"notebook_name": "same", "notebook_path": path})).await.ok();
    other.call("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": "Z"})).await.ok();
    desk.ok("overwrite_cell_source", json!({"cell_id": "id-D", "cell_source": "(D2)"})).await;
    assert_eq!(order(&desk.read("nb.ipynb")), "ZABC(D2)EFGH");
    let both = desk.ok("read_cell", json!({"cell_index": 0, "cell_id": "id-D"})).await;
    assert_eq!(both.cell_id(), "id-D");
    desk.ok("overwrite_cell_source", json!({"cell_index": 0, "cell_id": "id-D", "cell_source": "D"})).await;
    assert_eq!(order(&desk.read("nb.ipynb")), "ZABCDEFGH");
    let unknown = desk
        .refused(&["cell.not_found"], "overwrite_cell_source", json!({"cell_id": "nope", "cell_source": "x"}))
        .await;
    assert!(unknown.text().contains("read_notebook"), "{}", unknown.text());
    assert_eq!(order(&desk.read("nb.ipynb")), "ZABCDEFGH");
}

#[tokio::test]
async fn case_14_ids_can_be_given_wherever_indices_can() {
    let desk = Desk::new().await;
    desk.open_case("14_eight_cells.ipynb").await;
    let moved = desk.ok("move_cell", json!({"source_cell_id": "id-B", "target_cell_id": "id-F"})).await;
    assert_eq!(order(&desk.read("nb.ipynb")), "ACDEFBGH");
    assert_eq!(moved.cell_id(), "id-B");
    assert!(moved.meta("io.jupyter-mcp/cell_ids").to_string().contains("id-F"), "{}", moved.result()["_meta"]);
    let deleted = desk.ok("delete_cell", json!({"cell_ids_to_delete": ["id-G", "id-A"]})).await;
    assert_eq!(order(&desk.read("nb.ipynb")), "CDEFBH");
    for words in ["id-A", "id-G", "'A'", "'G'"] {
        assert!(deleted.text().contains(words), "{words}: {}", deleted.text());
    }
    let meta = deleted.result()["_meta"].to_string();
    assert!(meta.contains("id-A") && meta.contains("id-G"), "{meta}");
    desk.refused(
        &["cell.not_found", "arguments.invalid"],
        "delete_cell",
        json!({"cell_ids_to_delete": ["id-C", "nope"]}),
    )
    .await;
    desk.refused(
        &["arguments.invalid", "cell.not_found"],
        "delete_cell",
        json!({"cell_ids_to_delete": ["id-C", "id-C"]}),
    )
    .await;
    assert_eq!(order(&desk.read("nb.ipynb")), "CDEFBH");
}
