//! `list_files`: rows, paging, depth and patterns.

use serde_json::{Value, json};

use crate::harness::{Client, Desk, Gateway};

async fn tree() -> Desk {
    let desk = Desk::new().await;
    std::fs::create_dir_all(desk.path("sub/deeper/deepest/bottom")).unwrap();
    for (name, size) in [
        ("a.txt", 8),
        ("b.py", 1126),
        ("sub/c.txt", 0),
        ("sub/deeper/d.txt", 1),
        ("sub/deeper/deepest/e.txt", 2),
        ("sub/deeper/deepest/bottom/f.txt", 3),
    ] {
        desk.write(name, vec![b'x'; size]);
    }
    desk.write("n.ipynb", "{}");
    desk
}

async fn paths(desk: &Desk, mut more: Value) -> Vec<String> {
    let folder = desk.folder().to_owned();
    if more.get("path").is_none() {
        more["path"] = json!(folder);
    }
    let reply = desk.ok("list_files", more).await;
    let prefix = format!("{folder}/");
    reply.items().iter().map(|row| row["Path"].as_str().unwrap().trim_start_matches(&prefix).to_owned()).collect()
}

#[tokio::test]
async fn files_are_rows_with_type_size_and_time() {
    let desk = tree().await;
    let reply = desk.ok("list_files", json!({"path": desk.folder(), "max_depth": 0})).await;
    assert_eq!(reply.get("columns"), &json!(["Path", "Type", "Size", "Last_Modified"]));
    let row = |name: &str| {
        let path = format!("{}/{name}", desk.folder());
        reply.items().iter().find(|row| row["Path"] == path).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert_eq!((&row("a.txt")["Type"], &row("a.txt")["Size"]), (&json!("file"), &json!("8B")));
    assert_eq!(row("b.py")["Size"], "1.1KB");
    assert_eq!((&row("sub")["Type"], &row("sub")["Size"]), (&json!("directory"), &json!("")));
    assert_eq!(row("n.ipynb")["Type"], "notebook");
    let time = row("a.txt")["Last_Modified"].as_str().unwrap().to_owned();
    assert!(time.len() == 19 && time.as_bytes()[10] == b' ', "{time}");
    assert_eq!(reply.get("total"), 4);
}

#[tokio::test]
async fn depth_says_how_far_down_and_paths_are_sorted() {
    let desk = tree().await;
    assert_eq!(paths(&desk, json!({"max_depth": 0})).await, ["a.txt", "b.py", "n.ipynb", "sub"]);
    let one = ["a.txt", "b.py", "n.ipynb", "sub", "sub/c.txt", "sub/deeper"];
    assert_eq!(paths(&desk, json!({})).await, one);
    let three = paths(&desk, json!({"max_depth": 3})).await;
    assert!(
        three.contains(&"sub/deeper/deepest/e.txt".to_owned()) && !three.iter().any(|path| path.ends_with("f.txt")),
        "{three:?}"
    );
    let mut sorted = three.clone();
    sorted.sort();
    assert_eq!(three, sorted);
    desk.refused(&["arguments.invalid"], "list_files", json!({"max_depth": 4})).await;
}

#[tokio::test]
async fn a_pattern_is_a_glob_on_the_whole_path() {
    let desk = tree().await;
    let folder = desk.folder().to_owned();
    let matching = |pattern: String| json!({"pattern": pattern, "max_depth": 3});
    assert_eq!(paths(&desk, matching(format!("{folder}/*.txt"))).await, ["a.txt"]);
    let all = paths(&desk, matching(format!("{folder}/**/*.txt"))).await;
    assert_eq!(all, ["a.txt", "sub/c.txt", "sub/deeper/d.txt", "sub/deeper/deepest/e.txt"]);
    assert_eq!(paths(&desk, matching(format!("{folder}/[ab].*"))).await, ["a.txt", "b.py"]);
    assert_eq!(paths(&desk, matching("**/d.?xt".to_owned())).await, ["sub/deeper/d.txt"]);
    desk.refused(&["arguments.invalid"], "list_files", json!({"pattern": "[a"})).await;
    let none = desk.ok("list_files", json!({"path": folder, "pattern": "nothing*"})).await;
    assert!(none.get("items").is_null() && none.get("columns").is_null(), "{}", none.structured());
}

#[tokio::test]
async fn pages_join_to_the_whole() {
    let desk = Desk::new().await;
    for number in 0..48 {
        desk.write(&format!("f{number:02}"), "");
    }
    let first = desk.ok("list_files", json!({"path": desk.folder()})).await;
    assert_eq!((first.get("count"), first.get("total"), first.get("start_index")), (&json!(25), &json!(48), &json!(0)));
    let blocks = first.result()["content"].as_array().unwrap();
    assert!(blocks.len() >= 2 && blocks[1]["text"].as_str().unwrap().contains("48"), "{blocks:?}");
    let mut joined = Vec::new();
    for start in [0, 20, 40] {
        joined.extend(paths(&desk, json!({"start_index": start, "limit": 20})).await);
    }
    let all: Vec<String> = (0..48).map(|number| format!("f{number:02}")).collect();
    assert_eq!(joined, all);
    assert_eq!(paths(&desk, json!({"limit": 0})).await, all);
    let beyond = desk.client.call("list_files", json!({"path": desk.folder(), "start_index": 48})).await;
    assert!(beyond.text().contains("48"), "{}", beyond.text());
}

#[tokio::test]
async fn a_tab_in_a_name_shifts_no_column_and_is_true_in_the_items() {
    let desk = Desk::new().await;
    desk.write("odd\tname", "");
    desk.write("ünï 日本 #?%41.txt", "");
    let reply = desk.ok("list_files", json!({"path": desk.folder()})).await;
    let names: Vec<&str> =
        reply.items().iter().map(|row| row["Path"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["odd\tname", "ünï 日本 #?%41.txt"]);
    assert!(reply.get("result").as_str().unwrap().contains("odd name"));
}

#[tokio::test]
async fn a_path_that_is_not_there_is_an_error_and_a_file_lists_itself_or_is_refused() {
    let desk = tree().await;
    desk.refused(&["file.not_found"], "list_files", json!({"path": "no/such/folder"})).await.says("no/such/folder");
    let file = desk.client.call("list_files", json!({"path": format!("{}/a.txt", desk.folder())})).await;
    if !file.is_error() {
        assert!(file.items().iter().any(|row| row["Path"].as_str().unwrap().ends_with("a.txt")));
    }
}

#[tokio::test]
async fn an_empty_root_is_a_message_with_its_cache_hint() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    let limit = std::time::Duration::from_secs(900);
    client.call_within(limit, "launch_sandbox", json!({"sandbox_name": "bare"})).await.ok();
    for tool in ["list_files", "list_kernels", "list_notebooks"] {
        let reply = client.call(tool, json!({})).await.ok();
        assert!(reply.get("columns").is_null() && reply.get("items").is_null(), "{}", reply.structured());
        assert!(reply.get("result").is_string());
    }
}
