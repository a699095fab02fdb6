//! Paths and names that try to get out, or to break something.

use serde_json::{Value, json};

use crate::harness::{Client, Desk, Gateway};

fn hostile_paths() -> Vec<String> {
    let long = "n".repeat(10_000);
    [
        "../outside.ipynb",
        "a/../../outside.ipynb",
        "..",
        "../../../../../../etc/passwd",
        "/../outside.ipynb",
        "./../outside.ipynb",
        "a/b/../../../outside.ipynb",
        "nul\0byte.ipynb",
        "line\nbreak.ipynb",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([format!("{long}.ipynb"), format!("{}x.ipynb", "d/".repeat(5000))])
    .collect()
}

#[tokio::test]
async fn no_path_leaves_the_root() {
    let desk = Desk::new().await;
    let outside = desk.path("..").join("..").join("outside.ipynb");
    for (number, path) in hostile_paths().into_iter().enumerate() {
        for mode in ["connect", "create"] {
            let arguments = json!({"notebook_name": format!("n{number}"), "notebook_path": path, "mode": mode});
            let reply = desk.client.call("use_notebook", arguments).await;
            let shown: String = path.chars().take(60).collect();
            assert!(reply.is_error(), "{shown:?} was opened with {mode}");
            assert_eq!(reply.code(), "path.invalid", "{shown:?}: {}", reply.structured());
            assert!(reply.text().len() < 2000, "a long path comes back whole");
        }
        let reply = desk.client.call("list_files", json!({"path": path})).await;
        assert!(reply.is_error(), "{path:.60?} was listed");
    }
    assert!(!outside.exists(), "a notebook was made outside");
}

#[tokio::test]
async fn a_path_reaches_no_other_route_and_no_encoded_way_out() {
    let desk = Desk::new().await;
    for path in [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/x.ipynb",
        "/etc/passwd",
        "x?type=directory",
        "x#y",
        "..\\..\\x.ipynb",
        "~/x.ipynb",
        "api/kernels",
        "nb.ipynb/checkpoints",
    ] {
        desk.refused(&["file.not_found", "path.invalid"], "list_files", json!({"path": path})).await;
        let arguments = json!({"notebook_name": "x", "notebook_path": path});
        desk.refused(
            &["notebook.not_found", "file.not_found", "path.invalid", "notebook.invalid"],
            "use_notebook",
            arguments,
        )
        .await;
    }
}

#[tokio::test]
async fn a_path_that_stays_inside_is_what_it_means() {
    let desk = Desk::new().await;
    std::fs::create_dir(desk.path("sub")).unwrap();
    for (number, path) in ["sub/../a #1?.ipynb", "./sub/./b%41.ipynb", "/{}/sub/日本 é.ipynb"].into_iter().enumerate()
    {
        let path =
            if path.contains("{}") { path.replace("{}", desk.folder()) } else { format!("{}/{path}", desk.folder()) };
        let arguments = json!({"notebook_name": format!("n{number}"), "notebook_path": path, "mode": "create"});
        let reply = desk.ok("use_notebook", arguments).await;
        assert!(!reply.get("notebook")["path"].as_str().unwrap().contains(".."), "{}", reply.get("notebook"));
    }
    assert!(
        desk.path("a #1?.ipynb").exists()
            && desk.path("sub/b%41.ipynb").exists()
            && desk.path("sub/日本 é.ipynb").exists()
    );
}

#[tokio::test]
async fn no_sandbox_name_leaves_the_data_directory() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    let long = "n".repeat(10_000);
    for name in ["../up", "..", ".", "", "a/b", "/abs", "nul\0", "line\nbreak", " ", long.as_str()] {
        let reply = client.call("launch_sandbox", json!({"sandbox_name": name})).await;
        assert!(reply.is_error(), "{name:.40?} was launched");
        assert_eq!(reply.code(), "arguments.invalid", "{name:.40?}: {}", reply.structured());
    }
    let records = client.call("list_sandboxes", json!({})).await.ok();
    assert_eq!(records.get("result"), &json!([]));
    assert!(!gateway.data().parent().unwrap().join("up").exists());
}

#[tokio::test]
async fn strange_names_and_sources_change_nothing_but_what_they_name() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    for name in ["", "\0", "../x", &"n".repeat(10_000), "tab\there"] {
        let path = format!("{}/strange.ipynb", desk.folder());
        let reply = desk
            .client
            .call("use_notebook", json!({"notebook_name": name, "notebook_path": path, "mode": "create"}))
            .await;
        if !reply.is_error() {
            desk.ok("list_notebooks", json!({})).await;
            desk.ok("unuse_notebook", json!({"notebook_name": name})).await;
            std::fs::remove_file(desk.path("strange.ipynb")).unwrap();
        }
    }
    let id = Value::from("x".repeat(10_000));
    let reply = desk
        .refused(&["cell.not_found", "arguments.invalid"], "read_cell", json!({"cell_id": id, "notebook_name": "nb"}))
        .await;
    assert!(reply.text().len() < 2000, "a long id comes back whole");
    let megabyte = "m".repeat(1_000_000);
    let inserted = json!({"cell_index": 0, "cell_type": "raw", "cell_source": megabyte, "notebook_name": "nb"});
    let id = desk.ok("insert_cell", inserted).await.cell_id();
    let read = desk.ok("read_cell", json!({"cell_id": id, "notebook_name": "nb"})).await;
    assert!(read.text().len() < 110_000, "{}", read.text().len());
}
