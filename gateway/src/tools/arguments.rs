//! Reading arguments as models send them: lenient where the meaning is plain, else a sentence
//! that says what is taken.

use serde_json::{Map, Number, Value};

use super::Tool;
use crate::answer::{Code, Failure};

/// The tool with its arguments read from what the client sent.
pub(super) fn read<T: Tool>(arguments: Value, schema: &Value) -> Result<T, Failure> {
    let Value::Object(sent) = arguments else {
        return Err(refused(T::NAME, "the arguments have to be a JSON object"));
    };
    let arguments = normalized::<T>(sent, schema)?;
    serde_json::from_value(Value::Object(arguments)).map_err(|error| refused(T::NAME, &error.to_string()))
}

fn normalized<T: Tool>(sent: Map<String, Value>, schema: &Value) -> Result<Map<String, Value>, Failure> {
    let none = Map::new();
    let parameters = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut arguments = Map::new();
    for (name, value) in sent {
        let Some(parameter) = parameters.get(&name) else {
            not_advertised::<T>(&name, &value, parameters)?;
            continue;
        };
        let value = coerced(value, parameter);
        // null and absent mean the same: the default that the schema shows.
        if value.is_null() && !required.contains(&name.as_str()) {
            continue;
        }
        check(T::NAME, &name, &value, parameter)?;
        arguments.insert(name, value);
    }
    let missing: Vec<&str> = required.into_iter().filter(|name| !arguments.contains_key(*name)).collect();
    if missing.is_empty() {
        return Ok(arguments);
    }
    Err(refused(T::NAME, &format!("{} is required", missing.join(", "))))
}

fn not_advertised<T: Tool>(name: &str, value: &Value, parameters: &Map<String, Value>) -> Result<(), Failure> {
    if T::NULL_ONLY.contains(&name) {
        if value.is_null() {
            return Ok(());
        }
        return Err(refused(T::NAME, &format!("'{name}' has no meaning here: leave it out")));
    }
    let shown: String = name.chars().take(60).collect();
    if parameters.is_empty() {
        return Err(refused(T::NAME, &format!("there is no argument '{shown}': this tool takes none")));
    }
    let valid: Vec<&str> = parameters.keys().map(String::as_str).collect();
    let nearest =
        valid.iter().max_by(|a, b| strsim::jaro_winkler(&shown, a).total_cmp(&strsim::jaro_winkler(&shown, b)));
    let hint = nearest
        .filter(|nearest| strsim::jaro_winkler(&shown, nearest) > 0.8)
        .map_or(String::new(), |nearest| format!(" (did you mean '{nearest}'?)"));
    Err(refused(T::NAME, &format!("there is no argument '{shown}'{hint}; it takes {}", valid.join(", "))))
}

/// The types that a parameter takes, and the schema of its value.
fn types(parameter: &Value) -> Vec<(&str, &Value)> {
    let alternatives = parameter["anyOf"].as_array();
    let schemas = alternatives.map_or_else(|| vec![parameter], |alternatives| alternatives.iter().collect());
    schemas.into_iter().filter_map(|schema| Some((schema["type"].as_str()?, schema))).collect()
}

fn takes(parameter: &Value, kind: &str) -> bool {
    types(parameter).iter().any(|(taken, _)| *taken == kind)
}

/// What the value was meant to be, when that is plain: models send numbers, lists and null as text.
fn coerced(value: Value, parameter: &Value) -> Value {
    match value {
        Value::Number(number) if takes(parameter, "integer") => Value::Number(whole(number)),
        Value::String(text) if takes(parameter, "string") => {
            if text == "null" && takes(parameter, "null") {
                Value::Null
            } else {
                Value::String(text)
            }
        }
        Value::String(text) => from_text(&text, parameter).unwrap_or(Value::String(text)),
        Value::Array(items) => {
            let of =
                types(parameter).into_iter().find(|(kind, _)| *kind == "array").map(|(_, schema)| &schema["items"]);
            match of {
                Some(of) => items.into_iter().map(|item| coerced(item, of)).collect(),
                None => Value::Array(items),
            }
        }
        value => value,
    }
}

fn from_text(text: &str, parameter: &Value) -> Option<Value> {
    let Ok(meant) = serde_json::from_str::<Value>(text.trim()) else { return named(text, parameter) };
    let fits = match &meant {
        Value::Null => takes(parameter, "null"),
        Value::Bool(_) => takes(parameter, "boolean"),
        Value::Number(_) => takes(parameter, "integer") || takes(parameter, "number"),
        Value::Array(_) => takes(parameter, "array"),
        Value::Object(_) => takes(parameter, "object"),
        Value::String(_) => false,
    };
    fits.then(|| coerced(meant, parameter))
}

/// What Python calls these values.
fn named(text: &str, parameter: &Value) -> Option<Value> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" if takes(parameter, "boolean") => Some(true.into()),
        "false" if takes(parameter, "boolean") => Some(false.into()),
        "none" if takes(parameter, "null") => Some(Value::Null),
        _ => None,
    }
}

/// `2.0` is 2; anything with a fraction stays what it is and is refused.
#[expect(clippy::cast_possible_truncation, reason = "the value is whole and in the range of exact integers")]
fn whole(number: Number) -> Number {
    match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 && float.abs() < 9e15 => {
            Number::from(float as i64)
        }
        _ => number,
    }
}

fn check(tool: &str, name: &str, value: &Value, parameter: &Value) -> Result<(), Failure> {
    let types = types(parameter);
    if types.is_empty() {
        return Ok(());
    }
    let Some((_, schema)) = types.iter().find(|(kind, _)| is_a(value, kind)) else {
        let kinds: Vec<&str> = types.iter().map(|(kind, _)| *kind).collect();
        let shown: String = value.to_string().chars().take(60).collect();
        return Err(refused(tool, &format!("{name} has to be {}, not {shown}", kinds.join(" or "))));
    };
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        let shown: String = value.to_string().chars().take(60).collect();
        return Err(refused(tool, &format!("{name} has to be one of {}, not {shown}", allowed.join(", "))));
    }
    bounds(tool, name, value, schema)?;
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(tool, &format!("{name}[{index}]"), item, &schema["items"])?;
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        check(tool, &format!("{name}.{key}"), item, &schema["additionalProperties"])?;
    }
    Ok(())
}

fn bounds(tool: &str, name: &str, value: &Value, schema: &Value) -> Result<(), Failure> {
    if let (Some(number), Some(minimum)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < minimum
    {
        return Err(refused(tool, &format!("{name} is {value}, and has to be {minimum} or more{}", counting(name))));
    }
    if let (Some(number), Some(maximum)) = (value.as_f64(), schema["maximum"].as_f64())
        && number > maximum
    {
        return Err(refused(tool, &format!("{name} is {value}, and can be {maximum} at most")));
    }
    if let (Some(items), Some(minimum)) = (value.as_array(), schema["minItems"].as_u64())
        && (items.len() as u64) < minimum
    {
        return Err(refused(tool, &format!("{name} needs {minimum} or more entries")));
    }
    Ok(())
}

fn counting(name: &str) -> &'static str {
    if name.ends_with("index") { " (cells count from 0; read_notebook shows each one's index and id)" } else { "" }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn refused(tool: &str, what: &str) -> Failure {
    Failure::new(Code::ArgumentsInvalid, format!("{tool}: {what}. Nothing was changed."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check, coerced};

    #[test]
    fn what_models_send_is_taken_for_what_they_mean() {
        let index = json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]});
        assert_eq!(coerced(json!("2"), &index), json!(2));
        assert_eq!(coerced(json!(2.0), &index), json!(2));
        assert_eq!(coerced(json!("null"), &index), json!(null));
        assert_eq!(coerced(json!(2.5), &index), json!(2.5));
        let flag = json!({"type": "boolean"});
        assert_eq!(coerced(json!("True"), &flag), json!(true));
        let list = json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]});
        assert_eq!(coerced(json!("[1, \"2\"]"), &list), json!([1, 2]));
    }

    #[test]
    fn a_string_is_never_parsed() {
        let text = json!({"type": "string"});
        for value in ["2", "null", "[1]", "true"] {
            assert_eq!(coerced(json!(value), &text), json!(value));
        }
        let nullable = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        assert_eq!(coerced(json!("null"), &nullable), json!(null));
    }

    #[test]
    fn bounds_and_types_are_told() {
        let index = json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]});
        let message = check("read_cell", "cell_index", &json!(-1), &index).unwrap_err().message;
        assert!(message.contains("0 or more"), "{message}");
        let message = check("read_cell", "cell_index", &json!("x"), &index).unwrap_err().message;
        assert!(message.contains("integer or null"), "{message}");
        assert!(check("read_cell", "cell_index", &json!(3), &index).is_ok());
    }
}
