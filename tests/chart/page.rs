//! The chart's README and the defaults, which must not drift from the schema.

use serde_json::{Map, Value};

use crate::helm::{chart, helm_ok};

fn schema() -> Value {
    let text = std::fs::read_to_string(chart().join("values.schema.json")).expect("the schema is there");
    serde_json::from_str(&text).expect("JSON")
}

/// Each value's row, in the schema's order.
fn rows(prefix: &str, node: &Value, rows: &mut Vec<String>) {
    for (name, value) in node["properties"].as_object().expect("an object") {
        let key = format!("{prefix}{name}");
        if value["properties"].is_object() {
            rows_of(&key, value, rows);
        } else if let Some(default) = value.get("default") {
            rows.push(format!("| `{key}` | {} | `{default}` |", value["description"].as_str().expect("a description")));
        }
    }
}

fn rows_of(key: &str, value: &Value, all: &mut Vec<String>) {
    rows(&format!("{key}."), value, all);
}

/// The defaults that the schema tells of.
fn defaults(node: &Value) -> Value {
    let mut all = Map::new();
    for (name, value) in node["properties"].as_object().expect("an object") {
        if value["properties"].is_object() {
            all.insert(name.clone(), defaults(value));
        } else if let Some(default) = value.get("default") {
            all.insert(name.clone(), default.clone());
        }
    }
    Value::Object(all)
}

#[test]
fn the_readme_has_every_value_as_the_schema_tells_it() {
    let file = chart().join("README.md");
    let text = std::fs::read_to_string(&file).expect("the README is there");
    let head = "| Value | Meaning | Default |\n|---|---|---|\n";
    let (before, _) = text.split_once(head).expect("the table is there");
    let mut table = Vec::new();
    rows("", &schema(), &mut table);
    let wanted = format!("{before}{head}{}\n", table.join("\n"));
    if std::env::var_os("CELLGATE_UPDATE").is_some() {
        return std::fs::write(&file, &wanted).expect("it is written");
    }
    assert!(text == wanted, "charts/cellgate/README.md has drifted: CELLGATE_UPDATE=1 tests/run chart writes it anew");
}

#[test]
fn the_defaults_are_those_of_the_schema() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("defaults.json");
    std::fs::write(&file, defaults(&schema()).to_string()).expect("it is written");
    let chart = chart();
    let own = ["template", "x", chart.to_str().expect("text"), "--kube-version", "1.34.4"];
    let secrets = ["--set", "masterKey.existingSecret=keys,auth.existingSecret=auth"];
    let with = ["-f", file.to_str().expect("text")];
    // Values of a file are merged over the chart's: what the schema lacks is found by its being closed.
    assert_eq!(helm_ok(&[&own[..], &secrets].concat()), helm_ok(&[&own[..], &with, &secrets].concat()));
}
