//! The tools that read and edit cells, on a notebook whose cells are known.

use serde_json::{Value, json};

use crate::harness::{Client, Desk, read_json, shared, sources, validate_notebook};

async fn eight() -> Desk {
    let desk = Desk::new().await;
    desk.open_case("14_eight_cells.ipynb").await;
    desk
}

#[tokio::test]
async fn inserting_answers_the_new_cells_id_and_keeps_the_source_as_it_was() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let nasty = "a\r\nb\tc \u{1b}[31mred\u{0}\n\n'é' \"q\" \\n 日本 😀\n";
    for (kind, source) in [("code", "x = 1"), ("markdown", "# é"), ("raw", nasty), ("code", "")] {
        let inserted =
            desk.ok("insert_cell", json!({"cell_index": -1, "cell_type": kind, "cell_source": source})).await;
        assert_eq!(inserted.get("cell")["type"], kind);
        let read = desk.ok("read_cell", json!({"cell_id": inserted.cell_id()})).await;
        assert_eq!(read.get("source"), source);
        assert_eq!(read.get("notebook")["name"], "nb");
    }
    let notebook = read_json(&file);
    assert_eq!(sources(&notebook), ["x = 1", "# é", nasty, ""]);
    validate_notebook(&file);
    desk.refused(
        &["cell.not_found", "arguments.invalid"],
        "insert_cell",
        json!({"cell_index": 9, "cell_type": "code", "cell_source": ""}),
    )
    .await
    .says("4");
    assert_eq!(read_json(&file), notebook);
}

#[tokio::test]
async fn overwriting_and_editing_keep_everything_else_of_the_cell() {
    let desk = eight().await;
    let before = desk.read("nb.ipynb");
    let overwritten = desk.ok("overwrite_cell_source", json!({"cell_index": 2, "cell_source": "new\nlines"})).await;
    assert!(overwritten.text().contains("+new") && overwritten.text().contains("-'C'"), "{}", overwritten.text());
    desk.ok("edit_cell_source", json!({"cell_id": "id-D", "old_string": "D", "new_string": "DD"})).await;
    let after = desk.read("nb.ipynb");
    let mut expected = before.clone();
    expected["cells"][2]["source"] = json!(["new\n", "lines"]);
    expected["cells"][3]["source"] = json!(["'DD'"]);
    assert_eq!(after, expected);
    let same = desk.ok("overwrite_cell_source", json!({"cell_index": 2, "cell_source": "new\nlines"})).await;
    assert!(
        same.text().to_lowercase().contains("no change")
            || same.text().contains("already")
            || same.text().contains("nothing"),
        "{}",
        same.text()
    );
}

#[tokio::test]
async fn deleting_gives_back_what_it_removed() {
    let desk = eight().await;
    let one = desk.ok("delete_cell", json!({"cell_indices": [1]})).await;
    assert_eq!(one.cell_id(), "id-B");
    assert!(one.text().contains("'B'") && one.text().contains("id-B"), "{}", one.text());
    let bare = desk.ok("delete_cell", json!({"cell_indices": [0], "include_source": false})).await;
    assert!(!bare.text().contains("'A'"), "{}", bare.text());
    for nothing in
        [json!({}), json!({"cell_indices": null}), json!({"cell_indices": []}), json!({"cell_ids_to_delete": []})]
    {
        desk.refused(&["arguments.invalid", "cell.not_found"], "delete_cell", nothing).await;
    }
    assert_eq!(sources(&desk.read("nb.ipynb")).len(), 6);
}

#[tokio::test]
async fn clearing_an_output_leaves_all_else_and_needs_a_code_cell() {
    let desk = eight().await;
    desk.ok("insert_cell", json!({"cell_index": 0, "cell_type": "markdown", "cell_source": "# M"})).await;
    let before = desk.read("nb.ipynb");
    desk.ok("clear_cell_output", json!({"cell_id": "id-A"})).await;
    let mut expected = before.clone();
    expected["cells"][1]["outputs"] = json!([]);
    expected["cells"][1]["execution_count"] = Value::Null;
    assert_eq!(desk.read("nb.ipynb"), expected);
    desk.refused(&["cell.wrong_type"], "clear_cell_output", json!({"cell_index": 0})).await;
    desk.refused(&["cell.wrong_type"], "execute_cell", json!({"cell_index": 0})).await;
    assert_eq!(desk.read("nb.ipynb"), expected);
}

#[tokio::test]
async fn a_cell_that_is_not_there_is_refused_with_the_valid_range() {
    let desk = eight().await;
    let before = desk.read("nb.ipynb");
    for (tool, more) in [
        ("read_cell", json!({})),
        ("clear_cell_output", json!({})),
        ("execute_cell", json!({})),
        ("overwrite_cell_source", json!({"cell_source": "x"})),
        ("edit_cell_source", json!({"old_string": "A", "new_string": "x"})),
    ] {
        let with = |key: &str, value: Value| {
            let mut arguments = more.clone();
            arguments[key] = value;
            arguments
        };
        desk.refused(&["cell.not_found"], tool, with("cell_index", json!(8))).await.says("7");
        let unknown = desk.refused(&["cell.not_found"], tool, with("cell_id", json!("id-Z"))).await;
        assert!(unknown.text().contains("read_notebook") || unknown.text().contains("id-"), "{}", unknown.text());
        desk.refused(&["arguments.invalid"], tool, with("cell_index", json!(-1))).await;
        desk.refused(&["arguments.invalid", "cell.not_found"], tool, more.clone()).await;
    }
    for (source, target) in
        [(json!(0), json!(8)), (json!(8), json!(0)), (json!(null), json!(0)), (json!(0), json!(null))]
    {
        let arguments = json!({"source_index": source, "target_index": target});
        desk.refused(&["cell.not_found", "arguments.invalid"], "move_cell", arguments).await;
    }
    assert_eq!(desk.read("nb.ipynb"), before);
}

#[tokio::test]
async fn a_duplicate_id_is_ambiguous_and_its_index_is_not() {
    let desk = eight().await;
    let mut notebook = desk.read("nb.ipynb");
    notebook["cells"][4]["id"] = json!("id-A");
    desk.write("twice.ipynb", notebook.to_string());
    desk.open("twice").await.ok();
    desk.refused(&["cell.ambiguous"], "read_cell", json!({"cell_id": "id-A"})).await;
    assert_eq!(desk.ok("read_cell", json!({"cell_index": 4})).await.get("source"), "'E'");
}

#[tokio::test]
async fn a_cell_says_whether_it_ran() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let never =
        desk.ok("insert_cell", json!({"cell_index": -1, "cell_type": "code", "cell_source": "1"})).await.cell_id();
    let fine = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "pass"})).await.cell_id();
    let failed = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "1/0"})).await.cell_id();
    let mut states = Vec::new();
    for id in [&never, &fine, &failed] {
        states.push(
            desk.ok("read_cell", json!({"cell_id": id})).await.get("status").as_str().unwrap_or_default().to_owned(),
        );
    }
    assert_eq!(states, ["never run", "ok", "error"]);
    let code = "import time\nprint('began', flush=True)\ntime.sleep(3)";
    let mut running = desk
        .client
        .start("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    assert_eq!(desk.ok("read_cell", json!({"cell_index": 0})).await.get("status"), "running");
    running.wait().await.ok();
    assert_eq!(desk.ok("read_cell", json!({"cell_index": 0})).await.get("status"), "ok");
}

#[tokio::test]
async fn edits_of_two_sessions_at_once_are_all_there() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let path = format!("{}/nb.ipynb", desk.folder());
    let mut tasks = Vec::new();
    for session in 0..4 {
        let path = path.clone();
        tasks.push(tokio::spawn(async move {
            let client = Client::connect(shared().url()).await;
            client.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
            client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": path})).await.ok();
            for number in 0..10 {
                let source = format!("{session}-{number}");
                let arguments = json!({"cell_index": 0, "cell_type": "code", "cell_source": source});
                let id = client.call("insert_cell", arguments).await.ok().cell_id();
                let read = client.call("read_cell", json!({"cell_id": id})).await.ok();
                assert_eq!(read.get("source"), source.as_str(), "a write was not there when read");
            }
        }));
    }
    for task in tasks {
        task.await.expect("a session goes well");
    }
    let mut found = sources(&read_json(&file));
    found.sort();
    let mut expected: Vec<String> =
        (0..4).flat_map(|session| (0..10).map(move |number| format!("{session}-{number}"))).collect();
    expected.sort();
    assert_eq!(found, expected);
    validate_notebook(&file);
}

#[tokio::test]
async fn somebody_elses_change_of_the_file_is_seen_and_kept() {
    let desk = eight().await;
    desk.ok("read_notebook", json!({"notebook_name": "nb"})).await;
    let mut notebook = desk.read("nb.ipynb");
    notebook["cells"][7]["source"] = json!(["'changed by hand'"]);
    desk.write("nb.ipynb", serde_json::to_string_pretty(&notebook).unwrap());
    desk.ok("overwrite_cell_source", json!({"cell_id": "id-A", "cell_source": "A2"})).await;
    let after = sources(&desk.read("nb.ipynb"));
    assert_eq!((after[0].as_str(), after[7].as_str()), ("A2", "'changed by hand'"));
}

#[tokio::test]
async fn an_execution_runs_the_cell_it_inserted_even_while_others_insert() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let path = format!("{}/nb.ipynb", desk.folder());
    let other = Client::connect(shared().url()).await;
    other.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
    other.call("use_notebook", json!({"notebook_name": "n", "notebook_path": path})).await.ok();
    let inserting = async {
        for _ in 0..10 {
            let arguments = json!({"cell_index": 0, "cell_type": "code", "cell_source": "'other'"});
            other.call("insert_cell", arguments).await.ok();
        }
    };
    let running = async {
        for number in 0..5 {
            let arguments = json!({"cell_index": 0, "cell_source": format!("'run {number}'")});
            let reply = desk.ok("insert_execute_code_cell", arguments).await;
            assert_eq!(reply.outputs(), format!("'run {number}'"));
        }
    };
    tokio::join!(inserting, running);
    for cell in read_json(&file)["cells"].as_array().unwrap() {
        let source = sources(&json!({"cells": [cell]})).remove(0);
        let outputs = cell["outputs"].to_string();
        assert_eq!(source.contains("run"), outputs.contains(source.trim_matches('\'')), "{source}: {outputs}");
    }
    validate_notebook(&file);
}
