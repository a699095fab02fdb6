//! A tool's page in `docs/tools`, made from the catalogue.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use cellgate::tools::Entry;

/// The Markdown page of a tool: description, hints, parameters, output schema and how to call it.
pub(crate) fn reference_page(tool: &Entry) -> String {
    let name = tool.contract.tool;
    let mut page = format!("# {name}\n\n{}\n\n", tool.description);
    // Writing to a String can't fail.
    let _ = write!(
        page,
        "Kind `{}` · read-only: {} · idempotent: {} · open-world: {}\n\n## Parameters\n\n",
        tool.contract.kind,
        yes_no(tool.hints.read_only),
        yes_no(tool.hints.idempotent),
        yes_no(tool.hints.open_world)
    );
    page.push_str(&parameters(&tool.input_schema));
    let schema = serde_json::to_string_pretty(&tool.output_schema).unwrap_or_default();
    let _ = write!(page, "\n## Output\n\n```json\n{schema}\n```\n\n## Call it\n\n");
    let arguments = example(name);
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let request = serde_json::to_string_pretty(&request).unwrap_or_default();
    let _ = write!(
        page,
        "```json\n{request}\n```\n\n```python\nresult = await client.call_tool(\"{name}\", {})\n```\n",
        python(&arguments)
    );
    page
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn parameters(schema: &Value) -> String {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    if properties.is_empty() {
        return "None.\n".to_owned();
    }
    let required: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
    let mut table = "| Parameter | Type | Required | Default | Description |\n|---|---|---|---|---|\n".to_owned();
    for (name, parameter) in properties {
        let is_required = required.iter().any(|required| *required == name);
        let default = parameter.get("default").map_or(String::new(), |default| format!("`{default}`"));
        let description = parameter["description"].as_str().unwrap_or_default();
        let _ = writeln!(
            table,
            "| `{name}` | {} | {} | {default} | {description} |",
            kinds(parameter),
            yes_no(is_required)
        );
    }
    table
}

fn kinds(parameter: &Value) -> String {
    let one = |schema: &Value| {
        let kind = schema["type"].as_str().unwrap_or("any");
        let mut text = match schema["items"]["type"].as_str() {
            Some(of) => format!("{kind} of {of}"),
            None => kind.to_owned(),
        };
        for (bound, sign) in [("minimum", "≥"), ("maximum", "≤")] {
            if let Some(value) = schema.get(bound) {
                let _ = write!(text, " {sign} {value}");
            }
        }
        if let Some(allowed) = schema["enum"].as_array() {
            let allowed: Vec<String> = allowed.iter().map(|value| format!("`{value}`")).collect();
            let _ = write!(text, ": {}", allowed.join(", "));
        }
        text
    };
    match parameter["anyOf"].as_array() {
        Some(alternatives) => alternatives.iter().map(one).collect::<Vec<_>>().join(" or "),
        None => one(parameter),
    }
}

/// Arguments that can be sent as they stand, one page's call after another's (`tests/e2e/first_steps.rs`).
fn example(tool: &str) -> Value {
    match tool {
        "connect_to_jupyter" => json!({"jupyter_url": "http://127.0.0.1:8888/", "jupyter_token": "its token"}),
        "launch_sandbox" | "use_sandbox" | "terminate_sandbox" => json!({"sandbox_name": "main"}),
        "use_notebook" => {
            json!({"notebook_name": "analysis", "notebook_path": "analysis.ipynb", "mode": "create"})
        }
        "unuse_notebook" | "restart_notebook" | "read_notebook" => json!({"notebook_name": "analysis"}),
        "insert_cell" => json!({"cell_index": 0, "cell_type": "code", "cell_source": "print(6 * 7)"}),
        "insert_execute_code_cell" => json!({"cell_index": -1, "cell_source": "print(6 * 7)"}),
        "execute_code" => json!({"code": "print(6 * 7)"}),
        "edit_cell_source" => json!({"cell_index": 0, "old_string": "6 * 7", "new_string": "7 * 8"}),
        "overwrite_cell_source" => json!({"cell_index": 0, "cell_source": "print(6 * 7)"}),
        "move_cell" => json!({"source_index": 0, "target_index": 1}),
        "delete_cell" => json!({"cell_indices": [0]}),
        "execute_cell" | "read_cell" | "clear_cell_output" => json!({"cell_index": 0}),
        _ => json!({}),
    }
}

fn python(arguments: &Value) -> String {
    arguments.to_string().replace("\":", "\": ").replace(",\"", ", \"")
}
