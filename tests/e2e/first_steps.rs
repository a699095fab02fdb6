//! What a newcomer does first, as the README has it.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Client, Gateway, Start, marked, read_json, run_python, validate_notebook};

#[test]
fn the_demo_ends_with_a_plot_a_notebook_and_no_process() {
    let folder = TempDir::new().unwrap();
    let output = Start::default().data(folder.path()).command("demo").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in ["● A sandbox", "structuredContent", "[image/png", "ZeroDivisionError", "0 after"] {
        assert!(said.contains(part), "the demo does not show {part}:\n{said}");
    }
    let plot = std::fs::read(folder.path().join("plot.png")).unwrap();
    assert!(plot.starts_with(b"\x89PNG\r\n\x1a\n") && plot.len() > 1000);
    let notebook = folder.path().join("workspaces/local/demo/waves-1.ipynb");
    validate_notebook(&notebook);
    let cells = read_json(&notebook)["cells"].clone();
    assert_eq!(cells.as_array().map(Vec::len), Some(2));
    let images =
        cells[1]["outputs"].as_array().unwrap().iter().filter(|output| output["data"]["image/png"] != Value::Null);
    assert_eq!(images.count(), 1);
    assert!(marked(folder.path()).is_empty());
}

#[test]
fn a_demo_that_nobody_reads_to_the_end_leaves_no_process() {
    let folder = TempDir::new().unwrap();
    let mut command = Start::default().data(folder.path()).command("demo");
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(marked(folder.path()).is_empty());
}

/// An order in which each page's call finds what it needs. `connect_to_jupyter` needs a server of the reader's own.
const ORDER: [&str; 21] = [
    "launch_sandbox",
    "use_sandbox",
    "list_sandboxes",
    "use_notebook",
    "list_notebooks",
    "insert_cell",
    "insert_execute_code_cell",
    "read_notebook",
    "read_cell",
    "edit_cell_source",
    "overwrite_cell_source",
    "execute_cell",
    "clear_cell_output",
    "move_cell",
    "delete_cell",
    "execute_code",
    "list_kernels",
    "list_files",
    "restart_notebook",
    "unuse_notebook",
    "terminate_sandbox",
];

#[tokio::test]
async fn every_call_of_the_tools_pages_works_as_it_is_printed() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tools");
    for tool in ORDER {
        let page = std::fs::read_to_string(pages.join(format!("{tool}.md"))).unwrap();
        let (_, call) = page.split_once("## Call it\n\n```json\n").expect("the page has a call");
        let (call, _) = call.split_once("```").expect("the call ends");
        let call: Value = serde_json::from_str(call).unwrap();
        assert_eq!(call["params"]["name"], tool);
        client.call(tool, call["params"]["arguments"].clone()).await.ok();
    }
    assert_eq!(std::fs::read_dir(&pages).unwrap().count(), ORDER.len() + 1);
}

#[test]
fn the_readmes_python_works_as_it_is_printed() {
    let gateway = Gateway::start();
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```python\n").expect("the README has an example");
    let (example, _) = rest.split_once("```").expect("the example ends");
    assert!(example.contains("http://127.0.0.1:8717/mcp"), "{example}");
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("example.py");
    std::fs::write(&script, example.replace("http://127.0.0.1:8717/mcp", gateway.url())).unwrap();
    let output = run_python(&script, None::<&str>);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "['42']", "{}", String::from_utf8_lossy(&output.stderr));
}
