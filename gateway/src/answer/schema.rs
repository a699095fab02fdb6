//! The schemas of answers: what tools advertise, and the stricter ones that the gateway holds itself to.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{Contract, Shape};

/// The output schema that the tool advertises. Three cover all tools; two tools name more of their keys.
pub fn output_schema(contract: &Contract) -> Value {
    advertised(contract.shape)
}

/// Why an answer must not be sent: it breaks its advertised schema or the strict one of its shape.
pub(super) fn check(contract: &Contract, structured: &Value, is_error: bool) -> Result<(), String> {
    let kind = structured.get("kind").and_then(Value::as_str);
    if kind != Some(contract.kind) {
        return Err(format!("kind is {kind:?}, not {}", contract.kind));
    }
    let schemas = &SCHEMAS[contract.shape as usize];
    let strict = if is_error { &schemas.failure } else { &schemas.success };
    for validator in [&schemas.advertised, strict] {
        let validator = validator.as_ref().map_err(Clone::clone)?;
        validator.validate(structured).map_err(|error| {
            // The value itself belongs to a caller and stays out of the log.
            format!("{} at '{}'", error.schema_path(), error.instance_path())
        })?;
    }
    Ok(())
}

struct Schemas {
    advertised: Result<Validator, String>,
    success: Result<Validator, String>,
    failure: Result<Validator, String>,
}

static SCHEMAS: LazyLock<[Schemas; 5]> = LazyLock::new(|| {
    [Shape::Message, Shape::Rows, Shape::Outputs, Shape::Object, Shape::List].map(|shape| Schemas {
        advertised: compile(&advertised(shape)),
        success: compile(&success(shape)),
        failure: compile(&failure(shape)),
    })
});

fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}

fn advertised(shape: Shape) -> Value {
    match shape {
        Shape::Rows => table_answer(),
        Shape::Outputs => outputs_answer(),
        _ => tool_answer(shape),
    }
}

fn tool_answer(shape: Shape) -> Value {
    let mut schema = json!({
        "title": "ToolAnswer",
        "description": "What the tool did.",
        "type": "object",
        "properties": {
            "kind": kind(),
            "result": {"title": "Result", "description": "The answer as text.", "default": null},
        },
        "required": ["kind"],
        "additionalProperties": true,
    });
    match shape {
        Shape::Object => {
            let own = json!({"title": "Message", "description": "What happened.", "type": "string"});
            schema["properties"]["message"] = own;
            let own = json!({"title": "Sandbox", "description": "Its record.", "type": "object"});
            schema["properties"]["sandbox"] = own;
        }
        Shape::List => {
            schema["properties"]["result"] = json!({
                "title": "Result", "description": "The records.", "type": "array", "items": {},
            });
        }
        _ => {}
    }
    schema
}

fn table_answer() -> Value {
    json!({
        "title": "TableAnswer",
        "description": "A table, as text and as rows.",
        "type": "object",
        "properties": {
            "kind": kind(),
            "result": {"title": "Result", "description": "The table as text.", "default": null},
            "columns": {"title": "Columns", "type": "array", "items": {"type": "string"}},
            "items": {
                "title": "Items",
                "description": "The rows.",
                "type": "array",
                "items": {"type": "object", "additionalProperties": true},
            },
            "count": {"title": "Count", "type": "integer", "default": 0},
        },
        "required": ["kind"],
        "additionalProperties": true,
    })
}

fn outputs_answer() -> Value {
    json!({
        "title": "OutputsAnswer",
        "description": "Texts and images, in order.",
        "type": "object",
        "properties": {
            "kind": kind(),
            "result": {"title": "Result", "description": "The same as outputs.", "default": null},
            "outputs": {
                "title": "Outputs",
                "description": "A string is text, an object an image.",
                "type": "array",
                "items": {},
            },
            "count": {"title": "Count", "type": "integer", "default": 0},
            "images": {"title": "Images", "type": "integer", "default": 0},
        },
        "required": ["kind"],
        "additionalProperties": true,
    })
}

fn kind() -> Value {
    json!({"title": "Kind", "type": "string"})
}

/// What an answer of the shape has to hold, beyond what is advertised.
fn success(shape: Shape) -> Value {
    let mut schema = match shape {
        Shape::Message => json!({"required": ["result"], "properties": {"result": text()}}),
        Shape::Rows => json!({
            "required": ["result"],
            "properties": {
                "result": text(),
                "items": {"items": {"additionalProperties": {"type": "string"}}},
            },
            "dependentRequired": {"columns": ["items", "count"], "items": ["columns", "count"]},
        }),
        Shape::Outputs => outputs_keys(),
        Shape::Object => json!({
            "required": ["message"],
            "properties": {"message": text(), "result": false},
        }),
        Shape::List => json!({
            "required": ["result"],
            "properties": {"result": {"type": "array", "items": {"type": "object"}}},
        }),
    };
    schema["properties"]["error"] = Value::Bool(false);
    schema
}

/// What a failed call of the shape has to hold.
fn failure(shape: Shape) -> Value {
    let mut schema = match shape {
        Shape::Outputs => outputs_keys(),
        Shape::List => json!({
            "properties": {"result": {"type": "array", "items": text(), "minItems": 1}},
        }),
        _ => json!({"properties": {"result": text()}}),
    };
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    required.extend(["result".into(), "error".into()]);
    schema["required"] = Value::Array(required);
    schema["properties"]["error"] = json!({
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": {"type": "string", "pattern": "^[a-z_]+(\\.[a-z_]+)?$"}, "message": text()},
    });
    schema
}

fn outputs_keys() -> Value {
    let image = json!({
        "type": "object",
        "required": ["type", "mimeType"],
        "properties": {"type": {"const": "image"}, "data": {"type": "string", "pattern": "^\\S*$"}},
        "anyOf": [{"required": ["data"]}, {"required": ["size", "sha256"]}],
    });
    let list = json!({"type": "array", "items": {"anyOf": [{"type": "string"}, image]}});
    json!({
        "required": ["outputs", "count", "images"],
        "properties": {
            "result": list,
            "outputs": list,
            "count": {"type": "integer", "minimum": 0},
            "images": {"type": "integer", "minimum": 0},
        },
    })
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}
