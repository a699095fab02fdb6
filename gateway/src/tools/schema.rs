//! The wire form of a tool's parameters: plain JSON Schema 2020-12 that strict clients take.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Tool;

/// The bounds that belong to the value of a nullable parameter, not to its being null.
const OF_THE_VALUE: [&str; 6] = ["items", "minItems", "minimum", "maximum", "enum", "additionalProperties"];

/// The description and the parameters of a tool.
pub(super) fn input<T: Tool>() -> (String, Value) {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut root = settings.into_generator().into_root_schema_for::<T>().to_value();
    let description = root.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = unwrapped(description);
    let mut parameters = Map::new();
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, schema) in std::mem::take(properties) {
            parameters.insert(name, parameter(schema));
        }
    }
    let required = root.get("required").cloned().filter(|names| names != &json!([]));
    let mut schema = json!({"type": "object", "properties": parameters});
    if let Some(required) = required {
        schema["required"] = required;
    }
    schema["additionalProperties"] = false.into();
    (description, schema)
}

/// Doc comments are wrapped for their readers in the source; a description has no line ends but
/// those of paragraphs.
fn unwrapped(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

fn parameter(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    schema.remove("format");
    schema.remove("title");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = unwrapped(text);
    }
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.remove("format");
    }
    let Some(Value::Array(types)) = schema.get("type").cloned() else { return Value::Object(schema) };
    let mut value = Map::new();
    for key in OF_THE_VALUE {
        if let Some(bound) = schema.remove(key) {
            value.insert(key.to_owned(), bound);
        }
    }
    let alternatives: Vec<Value> = types
        .into_iter()
        .map(|kind| if kind == "null" { json!({"type": "null"}) } else { alternative(kind, &value) })
        .collect();
    schema.remove("type");
    let mut wire = Map::new();
    wire.insert("anyOf".to_owned(), alternatives.into());
    wire.extend(schema);
    Value::Object(wire)
}

fn alternative(kind: Value, bounds: &Map<String, Value>) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), kind);
    schema.extend(bounds.clone());
    Value::Object(schema)
}
