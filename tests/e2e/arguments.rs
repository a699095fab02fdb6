//! Arguments: what is accepted, what is refused, and that a refusal names the argument.

use serde_json::{Map, Value, json};

use crate::harness::{Client, Desk, contract_tools};

/// Arguments with which each tool gets past its own argument checks.
fn valid(tool: &str) -> Value {
    match tool {
        "connect_to_jupyter" => json!({"jupyter_url": "http://127.0.0.1:1/"}),
        "delete_cell" => json!({"cell_indices": [0]}),
        "edit_cell_source" => json!({"cell_index": 0, "old_string": "'", "new_string": "'", "replace_all": true}),
        "execute_code" => json!({"code": "1"}),
        "insert_cell" => json!({"cell_index": 0, "cell_type": "code", "cell_source": "1"}),
        "launch_sandbox" | "use_sandbox" => json!({"sandbox_name": "shared"}),
        "move_cell" => json!({"source_index": 0, "target_index": 1}),
        "insert_execute_code_cell" | "overwrite_cell_source" => json!({"cell_index": 0, "cell_source": "1"}),
        "clear_cell_output" | "execute_cell" | "read_cell" => json!({"cell_index": 0}),
        "read_notebook" | "restart_notebook" | "unuse_notebook" => json!({"notebook_name": "nb"}),
        "terminate_sandbox" => json!({"sandbox_name": "never-was"}),
        "use_notebook" => json!({"notebook_name": "nb", "notebook_path": "never-was.ipynb"}),
        _ => json!({}),
    }
}

fn tools() -> impl Iterator<Item = (&'static str, &'static Map<String, Value>)> {
    let tools = contract_tools()["tools"].as_array().expect("tools");
    tools
        .iter()
        .map(|tool| (tool["name"].as_str().expect("a name"), tool["parameters"].as_object().expect("parameters")))
}

fn with(tool: &str, name: &str, value: Value) -> Value {
    let mut arguments = valid(tool);
    arguments[name] = value;
    arguments
}

async fn desk() -> Desk {
    let desk = Desk::new().await;
    desk.open_case("14_eight_cells.ipynb").await;
    desk
}

#[tokio::test]
async fn a_missing_or_null_required_argument_is_refused_by_name() {
    let desk = desk().await;
    for (tool, parameters) in tools() {
        for name in parameters.iter().filter(|(_, schema)| schema["required"] == true).map(|(name, _)| name) {
            let mut missing = valid(tool);
            missing.as_object_mut().expect("an object").remove(name);
            desk.refused(&["arguments.invalid"], tool, missing).await.says(name);
            desk.refused(&["arguments.invalid"], tool, with(tool, name, Value::Null)).await.says(name);
        }
    }
}

#[tokio::test]
async fn an_unknown_argument_is_refused_with_the_valid_names() {
    let desk = desk().await;
    for (tool, parameters) in tools() {
        let reply = desk
            .refused(&["arguments.invalid"], tool, with(tool, "no_such_argument", json!(1)))
            .await
            .says("no_such_argument");
        for name in parameters.keys() {
            assert!(reply.text().contains(name), "{tool} does not name {name}: {}", reply.text());
        }
        desk.refused(&["arguments.invalid"], tool, with(tool, "no_such_argument", Value::Null)).await;
    }
}

#[tokio::test]
async fn a_value_of_another_type_is_refused_by_name() {
    let desk = desk().await;
    for (tool, parameters) in tools() {
        for (name, schema) in parameters {
            let types = schema["type"].to_string();
            let mut wrong = vec![json!(["x"]), json!({"x": 1})];
            if types.contains("array") {
                wrong = vec![json!({"x": 1}), json!("not a list"), json!(true), json!([{"x": 1}])];
            } else if types.contains("object") {
                wrong = vec![json!(["x"]), json!("text"), json!(5), json!({"x": {"y": 1}})];
            } else if types.contains("integer") || types.contains("number") {
                wrong.extend([json!("two"), json!(true)]);
                if !types.contains("number") {
                    wrong.push(json!(1.5));
                }
            } else if types.contains("boolean") {
                wrong.extend([json!("perhaps"), json!(7)]);
            } else {
                wrong.extend([json!(5), json!(true)]);
            }
            if name == "environment_version" {
                wrong = vec![json!(["x"]), json!({"x": 1}), json!(true)];
            }
            for value in wrong {
                desk.refused(&["arguments.invalid"], tool, with(tool, name, value)).await.says(name);
            }
        }
    }
}

#[tokio::test]
async fn a_number_outside_its_bounds_is_refused_by_name() {
    let desk = desk().await;
    for (tool, parameters) in tools() {
        for (name, schema) in parameters {
            for (bound, step) in [("minimum", -1), ("maximum", 1)] {
                if let Some(limit) = schema[bound].as_i64() {
                    desk.refused(&["arguments.invalid"], tool, with(tool, name, json!(limit + step))).await.says(name);
                }
            }
            if schema["type"] == "integer"
                || schema["type"].to_string().contains("integer") && name != "environment_version"
            {
                let huge: Value = serde_json::from_str("99999999999999999999999").expect("a number");
                let reply = desk.client.call(tool, with(tool, name, huge)).await;
                assert!(
                    reply.is_error() || name == "timeout" || name == "limit",
                    "{tool}.{name}: {}",
                    reply.structured()
                );
            }
            if schema.get("enum").is_some() {
                desk.refused(&["arguments.invalid"], tool, with(tool, name, json!("nonsense"))).await.says(name);
            }
        }
    }
}

#[tokio::test]
async fn null_means_the_default_for_every_optional_argument() {
    for (tool, parameters) in tools().filter(|(tool, _)| !["launch_sandbox", "use_sandbox"].contains(tool)) {
        let desk = desk().await;
        let mut all = valid(tool);
        for (name, _) in parameters.iter().filter(|(_, schema)| schema["required"] == false) {
            if all.get(name).is_none() {
                all[name] = Value::Null;
            }
        }
        let reply = desk.client.call(tool, all).await;
        let plain = desk.client.call(tool, valid(tool)).await;
        assert_eq!(reply.code(), plain.code(), "{tool}: {} but {}", reply.structured(), plain.structured());
        assert_ne!(reply.code(), "arguments.invalid", "{tool}: {}", reply.structured());
    }
}

#[tokio::test]
async fn values_as_models_write_them_are_accepted() {
    let desk = desk().await;
    for index in [json!("2"), json!(2.0), json!(2)] {
        let reply = desk
            .ok("read_cell", json!({"cell_index": index, "include_outputs": "false", "notebook_name": "null"}))
            .await;
        assert_eq!((reply.cell_id().as_str(), reply.get("count")), ("id-C", &json!(2)));
    }
    desk.ok("insert_cell", json!({"cell_index": "-1", "cell_type": "code", "cell_source": "[1, 2]"})).await;
    assert_eq!(desk.ok("read_cell", json!({"cell_index": 8})).await.get("source"), "[1, 2]");
    desk.ok("overwrite_cell_source", json!({"cell_index": 8, "cell_source": "null"})).await;
    assert_eq!(desk.ok("read_cell", json!({"cell_index": 8})).await.get("source"), "null");
    desk.ok("delete_cell", json!({"cell_indices": "[8, 7]", "include_source": "true"})).await;
    desk.ok("delete_cell", json!({"cell_ids_to_delete": "[\"id-A\"]", "cell_indices": "null"})).await;
    assert_eq!(desk.ok("read_notebook", json!({"notebook_name": "nb", "limit": "0"})).await.get("total"), 6);
}

#[tokio::test]
async fn arguments_that_are_absent_or_null_altogether_are_none() {
    let desk = desk().await;
    for params in [json!({"name": "list_sandboxes"}), json!({"name": "list_sandboxes", "arguments": {}})] {
        let message = desk.client.request("tools/call", params).await;
        assert_eq!(message["result"]["isError"], false, "{message}");
    }
    let nothing = desk.client.request("tools/call", json!({"name": "read_notebook"})).await;
    assert_eq!(nothing["result"]["structuredContent"]["error"]["code"], "arguments.invalid", "{nothing}");
}

#[tokio::test]
async fn an_argument_is_checked_before_anything_is_needed_to_carry_it_out() {
    let gateway = crate::harness::Gateway::start();
    let client = Client::connect(gateway.url()).await;
    client.call("execute_code", json!({"code": 5})).await.refused(&["arguments.invalid"]);
    client.call("list_files", json!({"max_depth": 9})).await.refused(&["arguments.invalid"]);
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    assert_eq!(listed.get("result"), &json!([]), "a refused call launched a sandbox");
}
