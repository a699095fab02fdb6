//! The contract that every answer keeps, whatever was asked.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use base64::Engine as _;
use jsonschema::Validator;
use serde_json::{Map, Value};

/// Every code that an error may have.
const ERROR_CODES: [&str; 34] = [
    "arguments.invalid",
    "path.invalid",
    "file.not_found",
    "notebook.not_open",
    "notebook.not_found",
    "notebook.exists",
    "notebook.name_taken",
    "notebook.invalid",
    "notebook.conflict",
    "cell.not_found",
    "cell.ambiguous",
    "cell.wrong_type",
    "edit.no_match",
    "edit.ambiguous",
    "kernel.not_found",
    "kernel.not_installed",
    "kernel.died",
    "kernel.busy",
    "execution.timeout",
    "execution.cancelled",
    "sandbox.none",
    "sandbox.not_found",
    "sandbox.name_taken",
    "sandbox.launch_failed",
    "sandbox.not_ready",
    "sandbox.gone",
    "sandbox.limit",
    "provider.unavailable",
    "provider.unsupported",
    "jupyter.unreachable",
    "jupyter.unauthorized",
    "forbidden",
    "overloaded",
    "internal",
];

/// Above this the text half may be cut, so that the halves are no longer the same word for word.
const CUT: usize = 90_000;

static CONTRACT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../contract/tools.json")).expect("the contract is JSON"));
static SCHEMAS: OnceLock<HashMap<String, Validator>> = OnceLock::new();

/// The contract: tools, cache hints and output schemas.
pub(crate) fn contract_tools() -> &'static Value {
    &CONTRACT
}

pub(super) fn knows_the_schemas() -> bool {
    SCHEMAS.get().is_some()
}

pub(super) fn learn_the_schemas(tools: &Value) {
    let tools = tools.as_array().expect("tools/list answers tools").iter().map(|tool| {
        let name = tool["name"].as_str().expect("a tool has a name").to_owned();
        let schema = jsonschema::validator_for(&tool["outputSchema"]).expect("an output schema is a schema");
        (name, schema)
    });
    let _ = SCHEMAS.set(tools.collect());
}

/// Fails, listing all that is wrong, when an answer of `tool` breaks the contract.
pub(super) fn answer(tool: &str, result: &Value) {
    let mut faults = Faults::default();
    faults.check(tool, result);
    let shown: String = result.to_string().chars().take(4000).collect();
    assert!(faults.0.is_empty(), "an answer of {tool} breaks the contract:\n- {}\n{shown}", faults.0.join("\n- "));
}

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn require(&mut self, holds: bool, otherwise: impl Into<String>) {
        if !holds {
            self.0.push(otherwise.into());
        }
    }

    fn check(&mut self, tool: &str, result: &Value) {
        let Some(contract) = CONTRACT["tools"].as_array().into_iter().flatten().find(|entry| entry["name"] == tool)
        else {
            return self.require(result["isError"] == true, "a tool that is in no contract succeeded");
        };
        let structured = &result["structuredContent"];
        let content = result["content"].as_array().map_or(&[][..], Vec::as_slice);
        self.content(content);
        self.require(structured.is_object(), "no structuredContent");
        self.require(structured["kind"] == contract["kind"], format!("kind is {}", structured["kind"]));
        self.schema(tool, structured);
        if result["isError"] == true {
            self.failure(contract, content, structured);
        } else {
            self.require(structured.get("error").is_none(), "a success has an error");
            self.success(contract, content, structured);
        }
        self.meta(tool, result);
    }

    fn content(&mut self, content: &[Value]) {
        self.require(!content.is_empty(), "content is empty");
        for (index, block) in content.iter().enumerate() {
            match block["type"].as_str() {
                Some("text") => self.text_block(index, block["text"].as_str().unwrap_or_default()),
                Some("image") => self.image(&block["mimeType"], &block["data"]),
                other => self.require(false, format!("a content block of type {other:?}")),
            }
        }
    }

    fn text_block(&mut self, index: usize, text: &str) {
        self.require(index > 0 || !text.trim().is_empty(), "the first text block is empty");
        let control = text.chars().find(|&character| is_control(character));
        self.require(control.is_none(), format!("text block {index} has the control character {control:?}"));
    }

    fn image(&mut self, kind: &Value, data: &Value) {
        let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
        self.require(kind.as_str().is_some_and(|kind| known.contains(&kind)), format!("an image of type {kind}"));
        let decoded = base64::engine::general_purpose::STANDARD.decode(data.as_str().unwrap_or("-"));
        self.require(decoded.is_ok_and(|bytes| !bytes.is_empty()), "an image whose base64 is broken");
    }

    fn schema(&mut self, tool: &str, structured: &Value) {
        let Some(schema) = SCHEMAS.get().and_then(|schemas| schemas.get(tool)) else {
            return self.require(false, "no output schema is advertised");
        };
        for error in schema.iter_errors(structured) {
            self.0.push(format!("outside its advertised schema: {error} at {}", error.instance_path()));
        }
    }

    fn failure(&mut self, contract: &Value, content: &[Value], structured: &Value) {
        let (code, message) =
            (&structured["error"]["code"], structured["error"]["message"].as_str().unwrap_or_default());
        self.require(code.as_str().is_some_and(|code| ERROR_CODES.contains(&code)), format!("error code {code}"));
        self.require(!message.trim().is_empty(), "an error without a message");
        let said = texts(content).iter().any(|text| text.contains(&visible(message)));
        self.require(said, "the error's message is not in content");
        if contract["shape"] == "outputs" {
            self.outputs(content, structured);
            let last = structured["outputs"].as_array().and_then(|outputs| outputs.last());
            self.require(
                last.and_then(Value::as_str).is_some_and(|last| last.contains(message)),
                "outputs do not end with the error",
            );
        } else {
            // A tool whose result is a list, as its schema says, has it as the only entry.
            let result = if contract["shape"] == "list" { &structured["result"][0] } else { &structured["result"] };
            self.require(result == message, "the error's message is not the result");
        }
    }

    fn success(&mut self, contract: &Value, content: &[Value], structured: &Value) {
        match contract["shape"].as_str() {
            Some("outputs") => self.outputs(content, structured),
            Some("rows") if structured.get("columns").is_some() => self.rows(content, structured),
            Some("object") => self.object(content, structured),
            Some("list") => self.list(content, structured),
            _ => self.message(content, structured),
        }
        let kind = structured["kind"].as_str().unwrap_or_default();
        if kind.starts_with("cell.") {
            let cell = &structured["cell"];
            let whole = cell["id"].is_string() && cell["index"].is_u64() && cell["type"].is_string();
            self.require(whole, format!("cell is {cell}"));
        }
        if kind.starts_with("cell.") || ["notebook.use", "notebook.read", "notebook.restart"].contains(&kind) {
            let notebook = &structured["notebook"];
            let whole = ["name", "path", "sandbox"].iter().all(|key| notebook[key].is_string());
            self.require(whole, format!("notebook is {notebook}"));
        }
        if kind.ends_with("execute") {
            let statuses = ["ok", "error", "timeout", "interrupted", "died", "aborted"];
            self.require(
                structured["status"].as_str().is_some_and(|status| statuses.contains(&status)),
                "no status of the run",
            );
            self.require(structured["seconds"].is_number(), "no seconds of the run");
            self.require(structured.get("execution_count").is_some(), "no execution_count of the run");
        }
    }

    fn message(&mut self, content: &[Value], structured: &Value) {
        let Some(result) = structured["result"].as_str() else { return self.require(false, "result is no text") };
        self.require(!result.is_empty(), "result is empty");
        let first = texts(content).into_iter().next().unwrap_or_default();
        let same = result.len() > CUT || result.chars().any(is_control) || first == result;
        self.require(same, "the first text block is not the result");
    }

    fn rows(&mut self, content: &[Value], structured: &Value) {
        let table = structured["result"].as_str().unwrap_or_default();
        let columns: Vec<&str> =
            structured["columns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let items = structured["items"].as_array().map_or(&[][..], Vec::as_slice);
        let text = texts(content).into_iter().next().unwrap_or_default();
        self.require(text == visible(table) || table.len() > CUT, "the first text block is not the table");
        self.require(structured["count"] == items.len(), "count is not the number of items");
        self.require(!items.is_empty(), "a table without rows should be a message");
        let mut lines = table.lines();
        self.require(lines.next() == Some(columns.join("\t").as_str()), "the table's header is not the columns");
        let lines: Vec<&str> = lines.collect();
        self.require(lines.len() == items.len(), "the table has other rows than items");
        for (line, item) in lines.iter().zip(items) {
            let values: Vec<String> = columns.iter().map(|column| flat(item[column].as_str())).collect();
            self.require(values.join("\t") == *line, format!("row {line:?} is not {item}"));
            self.require(item.as_object().is_some_and(|item| item.len() == columns.len()), format!("keys of {item}"));
        }
    }

    fn outputs(&mut self, content: &[Value], structured: &Value) {
        let outputs = structured["outputs"].as_array().map_or(&[][..], Vec::as_slice);
        self.require(structured["result"] == structured["outputs"], "result is not outputs");
        self.require(structured["count"] == outputs.len(), "count is not the number of outputs");
        let entries: Vec<&Map<String, Value>> = outputs.iter().filter_map(Value::as_object).collect();
        let images = structured["images"].as_u64().unwrap_or_default();
        self.require(images >= entries.len() as u64, "fewer images counted than shown");
        let mut rest = texts(content).join("\n");
        for text in outputs.iter().filter(|text| text.as_str().is_some_and(is_shown_as_it_is)) {
            let text = text.as_str().unwrap_or_default();
            // What was cut in the text half still has its head and its tail there.
            let (head, tail) = if text.len() > 1500 { ends(text) } else { (text, "") };
            match rest.find(head).and_then(|at| Some(at + rest[at..].find(tail)? + tail.len())) {
                Some(at) => rest = rest.split_off(at),
                None => self.require(
                    rest.len() > CUT,
                    format!("an output is missing from content, or out of order: {text:.200}"),
                ),
            }
        }
        let blocks = content.iter().filter(|block| block["type"] == "image");
        for (entry, block) in entries.into_iter().zip(blocks) {
            self.require(
                entry["type"] == "image" && entry["mimeType"] == block["mimeType"],
                "an image entry of another type",
            );
            let data = entry.get("data");
            let whole = data == block.get("data")
                || (data.is_none() && entry.contains_key("sha256") && entry.contains_key("size"));
            self.require(whole, "an image entry is neither its block's bytes nor their size and hash");
        }
    }

    fn object(&mut self, content: &[Value], structured: &Value) {
        self.require(structured.get("result").is_none(), "an object has a result");
        let mut expected = structured.clone();
        if let Some(expected) = expected.as_object_mut() {
            expected.remove("kind");
        }
        self.json(content, &[&expected]);
    }

    fn list(&mut self, content: &[Value], structured: &Value) {
        let Some(records) = structured["result"].as_array() else { return self.require(false, "result is no list") };
        if !records.is_empty() {
            let wrapped = serde_json::json!({"result": records});
            self.json(content, &[&structured["result"], &wrapped]);
        }
    }

    fn json(&mut self, content: &[Value], expected: &[&Value]) {
        let text = texts(content).into_iter().next().unwrap_or_default();
        let shown = serde_json::from_str::<Value>(&text);
        self.require(
            shown.is_ok_and(|shown| expected.contains(&&shown)),
            "the first text block is not the answer's JSON",
        );
    }

    fn meta(&mut self, tool: &str, result: &Value) {
        let meta = &result["_meta"];
        let wanted = &CONTRACT["cache_hints_ms"][tool];
        let hint = meta.get("io.modelcontextprotocol/cache");
        if wanted.is_null() || result["isError"] == true {
            self.require(hint.is_none(), "a cache hint where none belongs");
        } else {
            let right = serde_json::json!({"ttlMs": wanted, "cacheScope": "private"});
            self.require(hint == Some(&right), format!("the cache hint is {hint:?}"));
        }
        let cell = &result["structuredContent"]["cell"]["id"];
        self.require(cell.is_null() || meta["io.jupyter-mcp/cell_id"] == *cell, "_meta does not name the cell");
    }
}

fn texts(content: &[Value]) -> Vec<String> {
    content.iter().filter_map(|block| block["text"].as_str()).map(str::to_owned).collect()
}

/// A control character that no text block may hold.
fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\n' | '\r')
}

fn is_shown_as_it_is(text: &str) -> bool {
    text.len() < CUT && !text.chars().any(is_control)
}

/// The first and the last characters of a text that may have been cut between them.
fn ends(text: &str) -> (&str, &str) {
    let head = text.char_indices().nth(40).map_or(text.len(), |(at, _)| at);
    let tail = text.char_indices().nth_back(40).map_or(0, |(at, _)| at);
    (&text[..head], &text[tail..])
}

fn visible(text: &str) -> String {
    text.chars().filter(|&character| !is_control(character)).collect()
}

/// A value as a table's row shows it.
fn flat(value: Option<&str>) -> String {
    value.unwrap_or("(no text)").replace(['\t', '\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Faults, contract_tools};

    fn faults(tool: &str, change: impl Fn(&mut Value)) -> Vec<String> {
        let sentence = "Cell 3 deleted.";
        let mut result = json!({
            "content": [{"type": "text", "text": sentence}],
            "structuredContent": {
                "kind": "cell.delete", "result": sentence,
                "cell": {"id": "a", "index": 3, "type": "code"},
                "notebook": {"name": "n", "path": "n.ipynb", "sandbox": "s"}
            },
            "isError": false,
            "_meta": {"io.jupyter-mcp/cell_id": "a"}
        });
        change(&mut result);
        let mut faults = Faults::default();
        faults.check(tool, &result);
        // The advertised schemas are known only where a gateway was asked for them.
        faults.0.into_iter().filter(|fault| !fault.contains("schema")).collect()
    }

    #[test]
    fn an_answer_within_the_contract_has_no_faults() {
        assert!(contract_tools()["tools"].is_array());
        assert_eq!(faults("delete_cell", |_| {}), Vec::<String>::new());
    }

    #[test]
    fn every_breach_of_the_contract_is_found() {
        let breaches: [fn(&mut Value); 9] = [
            |result| result["content"] = json!([]),
            |result| result["content"][0]["text"] = json!("Cell 2 deleted."),
            |result| result["content"][0]["text"] = json!("\u{1b}[1mCell 3 deleted."),
            |result| result["structuredContent"]["kind"] = json!("cell.insert"),
            |result| result["structuredContent"]["cell"] = Value::Null,
            |result| result["structuredContent"]["notebook"]["sandbox"] = Value::Null,
            |result| result["_meta"] = json!({}),
            |result| result["_meta"]["io.modelcontextprotocol/cache"] = json!({"ttlMs": 1, "cacheScope": "private"}),
            |result| result["isError"] = json!(true),
        ];
        for (number, breach) in breaches.into_iter().enumerate() {
            assert!(!faults("delete_cell", breach).is_empty(), "breach {number} is not found");
        }
    }
}
