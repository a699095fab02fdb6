//! Opening, creating, reading and closing notebooks.

use serde_json::{Value, json};

use crate::harness::{Desk, case, validate_notebook};

#[tokio::test]
async fn a_new_notebook_has_no_cells_a_kernelspec_and_is_current() {
    let desk = Desk::new().await;
    let file = desk.create("deep").await;
    validate_notebook(&file);
    let notebook = desk.read("deep.ipynb");
    assert_eq!(notebook["cells"], json!([]));
    assert_eq!(notebook["metadata"]["kernelspec"]["name"], "python3");
    assert_eq!((&notebook["nbformat"], &notebook["nbformat_minor"]), (&json!(4), &json!(5)));
    let read = desk.ok("read_notebook", json!({"notebook_name": "deep"})).await;
    assert_eq!((read.get("total"), read.get("cells")), (&json!(0), &json!([])));
    desk.ok("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": "1"})).await;
    let path = format!("{}/new/folders/n.ipynb", desk.folder());
    desk.ok("use_notebook", json!({"notebook_name": "n", "notebook_path": path, "mode": "create"})).await;
    validate_notebook(&desk.path("new/folders/n.ipynb"));
}

#[tokio::test]
async fn opening_again_is_fine_and_other_uses_of_a_name_or_file_are_refused() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk.ok("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": "kept"})).await;
    let path = format!("{}/nb.ipynb", desk.folder());
    for mode in ["connect", "create"] {
        let again = desk.ok("use_notebook", json!({"notebook_name": "nb", "notebook_path": path, "mode": mode})).await;
        assert!(again.text().contains("already") || again.text().contains("open"), "{}", again.text());
    }
    let taken =
        json!({"notebook_name": "nb", "notebook_path": format!("{}/other.ipynb", desk.folder()), "mode": "create"});
    desk.refused(&["notebook.name_taken"], "use_notebook", taken).await;
    let exists = json!({"notebook_name": "other", "notebook_path": path, "mode": "create"});
    desk.refused(&["notebook.exists"], "use_notebook", exists).await;
    assert_eq!(desk.read("nb.ipynb")["cells"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_no_notebook_is_refused_and_left_alone() {
    let desk = Desk::new().await;
    let two_cells = |minor: u64, major: u64| {
        json!({"nbformat": major, "nbformat_minor": minor, "metadata": {}, "cells": []}).to_string()
    };
    for (name, content) in [
        ("empty", String::new()),
        ("blank", "  \n".to_owned()),
        ("broken", "{\"cells\": [".to_owned()),
        ("list", "[]".to_owned()),
        ("text", "hello".to_owned()),
        ("object", "{}".to_owned()),
        ("future", two_cells(0, 5)),
        ("cells", json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": "none"}).to_string()),
        (
            "strange",
            json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "nonsense"}]})
                .to_string(),
        ),
    ] {
        desk.write(&format!("{name}.ipynb"), &content);
        let reply = desk.open(name).await;
        assert!(reply.is_error(), "{name} was opened");
        let reply = reply.refused(&["notebook.invalid"]);
        assert!(reply.text().len() > 20, "{name}: {}", reply.text());
        assert_eq!(
            std::fs::read_to_string(desk.path(&format!("{name}.ipynb"))).unwrap(),
            content,
            "{name} was changed"
        );
    }
    desk.write("bytes.ipynb", [0xff_u8, 0xfe, 0x00, 0x80]);
    desk.open("bytes").await.refused(&["notebook.invalid"]);
    std::fs::create_dir(desk.path("folder.ipynb")).unwrap();
    desk.open("folder").await.refused(&["notebook.invalid", "path.invalid", "notebook.not_found"]);
    desk.open("missing").await.refused(&["notebook.not_found", "file.not_found"]).says("create");
    let rows = desk.ok("list_notebooks", json!({})).await;
    assert!(rows.get("items").is_null(), "a refused notebook is open: {}", rows.structured());
}

#[tokio::test]
async fn an_old_notebook_is_refused_or_works_but_is_never_spoilt() {
    let desk = Desk::new().await;
    let cell = json!({"cell_type": "code", "collapsed": false, "input": "1 + 1", "language": "python", "metadata": {}, "outputs": [], "prompt_number": 1});
    let old = json!({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [cell], "metadata": {}}]}).to_string();
    desk.write("old.ipynb", &old);
    let reply = desk.open("old").await;
    if reply.is_error() {
        reply.refused(&["notebook.invalid"]);
        assert_eq!(std::fs::read_to_string(desk.path("old.ipynb")).unwrap(), old);
        return;
    }
    let first = desk.ok("read_cell", json!({"cell_index": 0})).await;
    assert_eq!(first.get("source"), "1 + 1");
    assert_eq!(desk.ok("read_cell", json!({"cell_id": first.cell_id()})).await.get("source"), "1 + 1");
    desk.ok("overwrite_cell_source", json!({"cell_index": 0, "cell_source": "2"})).await;
    validate_notebook(&desk.path("old.ipynb"));
}

#[tokio::test]
async fn closing_leaves_no_notebook_current_and_names_those_still_open() {
    let desk = Desk::new().await;
    desk.create("one").await;
    desk.create("two").await;
    let closed = desk.ok("unuse_notebook", json!({"notebook_name": "two"})).await;
    assert!(closed.text().contains("one"), "{}", closed.text());
    let refused = desk.refused(&["notebook.not_open"], "read_cell", json!({"cell_index": 0})).await;
    assert!(refused.text().contains("one"), "{}", refused.text());
    let again = desk.ok("unuse_notebook", json!({"notebook_name": "two"})).await;
    assert!(again.text().contains("two") && again.text() != closed.text(), "{}", again.text());
    desk.ok("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": "1", "notebook_name": "one"}))
        .await;
}

#[tokio::test]
async fn without_a_notebook_every_notebook_tool_names_use_notebook() {
    let desk = Desk::new().await;
    for (tool, arguments) in [
        ("read_cell", json!({"cell_index": 0})),
        ("clear_cell_output", json!({"cell_index": 0})),
        ("delete_cell", json!({"cell_indices": [0]})),
        ("edit_cell_source", json!({"cell_index": 0, "old_string": "a", "new_string": "b"})),
        ("execute_cell", json!({"cell_index": 0})),
        ("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": ""})),
        ("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": ""})),
        ("move_cell", json!({"source_index": 0, "target_index": 1})),
        ("overwrite_cell_source", json!({"cell_index": 0, "cell_source": ""})),
        ("read_notebook", json!({"notebook_name": "nb"})),
        ("restart_notebook", json!({"notebook_name": "nb"})),
        ("execute_code", json!({"code": "1", "notebook_name": "nb"})),
    ] {
        desk.refused(&["notebook.not_open"], tool, arguments).await.says("use_notebook");
    }
}

#[tokio::test]
async fn a_brief_read_and_a_detailed_read_show_ids_and_agree() {
    let desk = Desk::new().await;
    desk.open_case("14_eight_cells.ipynb").await;
    desk.ok("overwrite_cell_source", json!({"cell_id": "id-C", "cell_source": "first line\nsecond line"})).await;
    let brief = desk.ok("read_notebook", json!({"notebook_name": "nb"})).await;
    let detailed = desk.ok("read_notebook", json!({"notebook_name": "nb", "response_format": "detailed"})).await;
    for (reply, key, value) in [(&brief, "first_line", "first line"), (&detailed, "source", "first line\nsecond line")]
    {
        let cells = reply.get("cells").as_array().unwrap();
        assert_eq!(cells.len(), 8);
        assert_eq!(cells[2][key], value);
        for (index, cell) in cells.iter().enumerate() {
            assert_eq!(cell["index"], index);
            assert_eq!(cell["type"], "code");
            assert_eq!(cell["execution_count"], index + 1);
            assert!(reply.text().contains(cell["id"].as_str().unwrap()), "{}", reply.text());
        }
    }
    assert!(!brief.text().contains("second line") && detailed.text().contains("second line"));
    let page = desk.ok("read_notebook", json!({"notebook_name": "nb", "start_index": 6, "limit": 5})).await;
    let indices: Vec<&Value> = page.get("cells").as_array().unwrap().iter().map(|cell| &cell["index"]).collect();
    assert_eq!(indices, [6, 7]);
    let beyond = desk.client.call("read_notebook", json!({"notebook_name": "nb", "start_index": 8})).await;
    assert!(beyond.text().contains('8'), "{}", beyond.text());
}

#[tokio::test]
async fn the_listing_of_notebooks_shows_kernel_states_and_the_current_one() {
    let desk = Desk::new().await;
    let none = desk.ok("list_notebooks", json!({})).await;
    assert!(none.get("columns").is_null() && none.get("items").is_null());
    desk.open_copy(&case("14_eight_cells.ipynb"), "quiet").await;
    desk.create("runs").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "1"})).await;
    let reply = desk.ok("list_notebooks", json!({})).await;
    assert_eq!(reply.get("columns"), &json!(["Name", "Path", "Kernel_ID", "Kernel_Status", "Activate", "Sandbox"]));
    let row = |name: &str| reply.items().iter().find(|row| row["Name"] == name).unwrap().clone();
    assert_eq!((&row("quiet")["Kernel_ID"], &row("quiet")["Kernel_Status"]), (&json!("-"), &json!("none")));
    assert_eq!((&row("runs")["Kernel_Status"], &row("runs")["Activate"]), (&json!("idle"), &json!("✓")));
    assert_ne!(row("quiet")["Activate"], "✓");
    assert_eq!(row("runs")["Sandbox"], "shared");
    assert_eq!(row("runs")["Path"], format!("{}/runs.ipynb", desk.folder()));
}
