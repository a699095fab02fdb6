//! What `tools/list` promises a client before it calls anything.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::harness::{Client, Era, case, contract_tools, run_python, shared};

async fn listed() -> Vec<Value> {
    let client = Client::connect(shared().url()).await;
    let message = client.request("tools/list", json!({})).await;
    message["result"]["tools"].as_array().expect("tools").clone()
}

fn contract() -> impl Iterator<Item = &'static Value> {
    contract_tools()["tools"].as_array().expect("tools").iter()
}

#[tokio::test]
async fn the_tools_are_those_of_the_contract_in_the_same_order_each_time() {
    let names = |tools: &[Value]| tools.iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>();
    let first = names(&listed().await);
    let wanted: Vec<Value> = contract().map(|tool| tool["name"].clone()).collect();
    assert_eq!(first, wanted);
    assert_eq!(names(&listed().await), first);
}

#[tokio::test]
async fn both_eras_list_the_same_tools() {
    let modern = Client::connect_as(shared().url(), Era::Modern, "lister", None).await;
    let message = modern.request("tools/list", json!({})).await;
    assert_eq!(message["result"]["tools"], Value::Array(listed().await));
}

#[tokio::test]
async fn every_parameter_is_as_in_the_contract() {
    let tools = listed().await;
    let mut wrong = Vec::new();
    for (tool, wanted) in tools.iter().zip(contract()) {
        let schema = &tool["inputSchema"];
        let name = &tool["name"];
        if schema["type"] != "object" || schema["additionalProperties"] != false {
            wrong.push(format!("{name}: the input schema is not a closed object"));
        }
        let (properties, parameters) = (object(&schema["properties"]), object(&wanted["parameters"]));
        let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
        if keys(&properties) != keys(&parameters) {
            wrong.push(format!("{name}: parameters {:?}, not {:?}", keys(&properties), keys(&parameters)));
        }
        let required: BTreeSet<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (parameter, wanted) in &parameters {
            let advertised = normal(&properties.get(parameter).cloned().unwrap_or_default());
            let (mut wanted_schema, is_required) = (wanted.clone(), wanted["required"] == true);
            for note in ["required", "added", "unit", "meaning", "not_as_there"] {
                wanted_schema.as_object_mut().expect("a parameter").remove(note);
            }
            if normal(&wanted_schema) != advertised {
                wrong.push(format!("{name}.{parameter}: {advertised}, not {}", normal(&wanted_schema)));
            }
            if required.contains(parameter.as_str()) != is_required {
                wrong.push(format!("{name}.{parameter}: required should be {is_required}"));
            }
            let description = properties.get(parameter).and_then(|schema| schema["description"].as_str());
            if description.is_none_or(str::is_empty) {
                wrong.push(format!("{name}.{parameter}: no description"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A parameter's schema in one form, whichever way it says that null is allowed.
fn normal(schema: &Value) -> Value {
    let mut types = BTreeSet::new();
    let mut rest = Map::new();
    let mut take = |part: &Value| {
        for (key, value) in object(part) {
            match key.as_str() {
                "type" => match value {
                    Value::Array(several) => types.extend(several.iter().filter_map(Value::as_str).map(str::to_owned)),
                    one => types.extend(one.as_str().map(str::to_owned)),
                },
                // Notes for people, and what the values of `env` are, which the contract leaves open.
                "anyOf" | "description" | "title" | "additionalProperties" => {}
                _ => drop(rest.insert(key, value)),
            }
        }
    };
    take(schema);
    for part in schema["anyOf"].as_array().into_iter().flatten() {
        take(part);
    }
    if let Some(items) = rest.get_mut("items") {
        *items = items["type"].clone();
    }
    rest.sort_keys();
    json!({"types": types, "rest": rest})
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[tokio::test]
async fn annotations_are_as_in_the_contract() {
    for (tool, wanted) in listed().await.iter().zip(contract()) {
        assert_eq!(tool["annotations"], wanted["annotations"], "{}", tool["name"]);
    }
}

#[tokio::test]
async fn three_output_schemas_cover_all_tools() {
    let schemas = &contract_tools()["output_schemas"];
    for (tool, wanted) in listed().await.iter().zip(contract()) {
        let (name, schema) = (&tool["name"], &tool["outputSchema"]);
        let shape = match wanted["shape"].as_str() {
            Some("rows") => "rows",
            Some("outputs") => "outputs",
            _ => "message",
        };
        assert_eq!(schema["type"], "object", "{name}");
        assert_eq!(schema["required"], json!(["kind"]), "{name}");
        assert_eq!(schema["additionalProperties"], true, "{name}");
        assert_eq!(schema["title"], schemas[shape]["title"], "{name}");
        for (property, wanted) in object(&schemas[shape]["properties"]) {
            let advertised = &schema["properties"][&property];
            if name == "list_sandboxes" && property == "result" {
                assert_eq!(advertised["type"], "array", "{name}");
                continue;
            }
            for (key, value) in object(&wanted) {
                assert_eq!(advertised[&key], value, "{name}.{property}.{key}");
            }
            let title = property[..1].to_uppercase() + &property[1..];
            assert_eq!(advertised["title"], title, "{name}.{property}");
        }
        if name == "launch_sandbox" {
            assert!(
                schema["properties"]["message"].is_object() && schema["properties"]["sandbox"].is_object(),
                "{schema}"
            );
        }
    }
}

#[tokio::test]
async fn a_model_pays_at_most_16_kb_and_the_whole_list_is_at_most_28_kb() {
    let tools = listed().await;
    let paid: usize = tools
        .iter()
        .map(|tool| {
            json!({"name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"]})
                .to_string()
                .len()
        })
        .sum();
    assert!(paid <= 16 * 1024, "names, descriptions and input schemas: {paid} bytes");
    let whole = json!({"tools": tools}).to_string().len();
    assert!(whole <= 28 * 1024, "the whole list: {whole} bytes");
}

#[tokio::test]
async fn strict_clients_take_every_schema() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), Value::Array(listed().await).to_string()).expect("it is written");
    let output = run_python(&case("16_schema_check.py"), [file.path()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("22 tools, 0 hard"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn the_instructions_are_short_and_say_the_rules() {
    for era in [Era::Legacy, Era::Modern] {
        let client = Client::connect_as(shared().url(), era, "reader", None).await;
        let instructions = client.hello()["instructions"].as_str().unwrap_or_default().to_owned();
        assert!(!instructions.is_empty() && instructions.len() < 1500, "{} bytes", instructions.len());
        assert!(instructions.contains("cell_id"), "{instructions}");
    }
}
