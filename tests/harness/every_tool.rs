//! All 22 tools, once each, through a provider's sandbox.

use std::collections::BTreeSet;

use serde_json::json;

use super::berth::Berth;
use super::check::contract_tools;
use super::token::sandbox_token;

/// Calls every tool; each has to succeed.
pub(crate) async fn every_tool_answers(berth: &Berth) {
    berth.launch("box").await;
    let calls = [
        ("list_sandboxes", json!({})),
        ("use_sandbox", json!({"sandbox_name": "box"})),
        ("list_files", json!({})),
        ("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})),
        ("insert_cell", json!({"cell_index": 0, "cell_type": "markdown", "cell_source": "# Title"})),
        ("insert_execute_code_cell", json!({"cell_index": 1, "cell_source": "x = 6 * 7\nprint(x)"})),
        ("insert_cell", json!({"cell_index": 2, "cell_type": "code", "cell_source": "print(x + 1)"})),
        ("execute_cell", json!({"cell_index": 2})),
        ("read_cell", json!({"cell_index": 2})),
        ("read_notebook", json!({"notebook_name": "n"})),
        ("edit_cell_source", json!({"cell_index": 2, "old_string": "x + 1", "new_string": "x + 2"})),
        ("overwrite_cell_source", json!({"cell_index": 0, "cell_source": "# Other"})),
        ("move_cell", json!({"source_index": 0, "target_index": 1})),
        ("delete_cell", json!({"cell_indices": [1]})),
        ("clear_cell_output", json!({"cell_index": 0})),
        ("execute_code", json!({"code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"})),
        ("list_kernels", json!({})),
        ("list_notebooks", json!({})),
        ("restart_notebook", json!({"notebook_name": "n"})),
        ("unuse_notebook", json!({"notebook_name": "n"})),
    ];
    let mut called = BTreeSet::from(["launch_sandbox", "connect_to_jupyter", "terminate_sandbox"]);
    for (tool, arguments) in calls {
        berth.client.call(tool, arguments).await.ok();
        called.insert(tool);
    }
    let record = berth.record("box").await;
    let token = sandbox_token(berth.data(), record["id"].as_str().expect("an id"));
    berth.client.call("connect_to_jupyter", json!({"jupyter_url": record["url"], "jupyter_token": token})).await.ok();
    berth.terminate("box").await;
    let known = contract_tools()["tools"].as_array().expect("a list").iter();
    let known: BTreeSet<&str> = known.map(|tool| tool["name"].as_str().expect("a name")).collect();
    assert_eq!(called, known);
}
