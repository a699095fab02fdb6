use serde_json::{Map, Value, json};

use super::*;
use crate::answer::{Part, output_schema};

const COLUMNS: &[&str] = &["ID", "Name"];

fn contract(kind: &'static str, shape: Shape) -> Contract {
    Contract { tool: "a_tool", kind, shape, cache_ms: None }
}

fn sealed(contract: &Contract, result: Result<Answer, Failure>) -> Sealed {
    let sealed = seal(contract, result, &Limits::default(), &["hush-hush".to_owned()]);
    assert_keeps_promises(contract, &sealed, &Limits::default());
    sealed
}

/// What holds for every answer.
fn assert_keeps_promises(contract: &Contract, sealed: &Sealed, limits: &Limits) {
    assert_eq!(sealed.structured["kind"], contract.kind);
    let validator = jsonschema::validator_for(&output_schema(contract)).unwrap();
    assert!(validator.is_valid(&sealed.structured), "{}", sealed.structured);
    assert!(sealed.structured.to_string().len() <= limits.structured_bytes);
    let texts = texts(sealed);
    assert!(!texts[0].is_empty());
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    assert!(chars <= limits.text_chars, "{chars} in {} texts", texts.len());
    for text in texts {
        assert!(!text.chars().any(|c| c.is_control() && !"\t\n\r".contains(c)), "{text:?}");
        assert!(!text.contains("hush-hush"));
    }
    assert!(!sealed.structured.to_string().contains("hush-hush"));
    assert_eq!(sealed.is_error, sealed.structured.get("error").is_some());
}

fn texts(sealed: &Sealed) -> Vec<&str> {
    let mut texts = Vec::new();
    for block in &sealed.content {
        if let Block::Text(text) = block {
            texts.push(text.as_str());
        }
    }
    texts
}

fn shown(sealed: &Sealed) -> Value {
    let block = |block: &Block| match block {
        Block::Text(text) => json!(text),
        Block::Image { mime_type, data } => json!({"image": mime_type, "data": data}),
    };
    let content: Vec<_> = sealed.content.iter().map(block).collect();
    json!({"content": content, "structured": sealed.structured, "meta": sealed.meta, "is_error": sealed.is_error})
}

fn image(data: impl Into<String>) -> Part {
    Part::Image { mime_type: "image/png".into(), data: data.into() }
}

#[test]
fn each_shape_in_full() {
    let message = Answer::message("Cell 3 deleted.\u{1b}").with("total", 7).cell_id("c3");
    let rows = Answer::rows(COLUMNS, vec![vec!["k-1".into(), "Pyth\ton".into()]], "None.").note("Showing 0-1 of 1.");
    let outputs = Answer::outputs(vec![Part::Text("before".into()), image("aGVs\nbG8=\n")]).with("status", "ok");
    let fields = Map::from_iter([("sandbox".to_owned(), json!({"id": "s-1", "name": "Größe"}))]);
    let object = Answer::object("Started.", fields);
    let list = Answer::list(vec![json!({"id": "s-1"})], "None.");
    let cached = Contract { cache_ms: Some(10_000), ..contract("kernels.list", Shape::Rows) };
    let shapes = json!({
        "message": shown(&sealed(&contract("cell.delete", Shape::Message), Ok(message))),
        "rows": shown(&sealed(&cached, Ok(rows))),
        "rows, empty": shown(&sealed(&cached, Ok(Answer::rows(COLUMNS, vec![], "No kernels.")))),
        "outputs": shown(&sealed(&contract("cell.execute", Shape::Outputs), Ok(outputs))),
        "outputs, none": shown(&sealed(&contract("cell.execute", Shape::Outputs), Ok(Answer::outputs(vec![])))),
        "object": shown(&sealed(&contract("sandbox.launch", Shape::Object), Ok(object))),
        "list": shown(&sealed(&contract("sandboxes.list", Shape::List), Ok(list))),
        "list, empty": shown(&sealed(&contract("sandboxes.list", Shape::List), Ok(Answer::list(vec![], "None.")))),
    });
    insta::assert_json_snapshot!("shapes", shapes);
}

#[test]
fn each_shape_of_error_in_full() {
    let failure = || Failure::new(Code::SandboxNone, "No sandbox is active: call launch_sandbox.");
    let late = failure().parts(vec![Part::Text("tick 1\n".into()), image("aGVsbG8=")]).with("status", "timeout");
    let cached = Contract { cache_ms: Some(10_000), ..contract("kernels.list", Shape::Rows) };
    let errors = json!({
        "message": shown(&sealed(&contract("cell.delete", Shape::Message), Err(failure().cell_id("c3")))),
        "rows": shown(&sealed(&cached, Err(failure()))),
        "outputs": shown(&sealed(&contract("cell.execute", Shape::Outputs), Err(late))),
        "object": shown(&sealed(&contract("sandbox.launch", Shape::Object), Err(failure().note("A note.")))),
        "list": shown(&sealed(&contract("sandboxes.list", Shape::List), Err(failure()))),
    });
    insta::assert_json_snapshot!("errors", errors);
}

#[test]
fn the_three_schemas() {
    let schemas: Map<_, _> = [Shape::Message, Shape::Rows, Shape::Outputs, Shape::Object, Shape::List]
        .into_iter()
        .map(|shape| (format!("{shape:?}"), output_schema(&contract("a.kind", shape))))
        .collect();
    let bytes = |shape: &str| schemas[shape].to_string().len();
    let all = 14 * bytes("Message") + 3 * bytes("Rows") + 4 * bytes("Outputs") + bytes("Object") + bytes("List");
    assert!(all < 8_000, "clients pay for {all} bytes");
    insta::assert_json_snapshot!("schemas", schemas);
}

#[test]
fn an_answer_outside_its_schema_is_the_gateways_own_error() {
    let wrong = [
        (Shape::Outputs, Answer::message("no outputs")),
        (Shape::Message, Answer::outputs(vec![])),
        (Shape::List, Answer::list(vec![json!("no record")], "")),
        (Shape::Message, Answer::message("fine").with("error", "but not this")),
        (Shape::Message, Answer::message("")),
    ];
    for (shape, answer) in wrong {
        let sealed = sealed(&contract("a.kind", shape), Ok(answer));
        assert!(sealed.is_error);
        assert_eq!(sealed.structured["error"]["code"], "internal");
    }
}

#[test]
fn the_keys_of_the_shape_are_its_own() {
    let answer =
        Answer::outputs(vec![Part::Text("x".into())]).with("kind", "other").with("count", 9).with("status", "ok");
    let sealed = sealed(&contract("cell.execute", Shape::Outputs), Ok(answer));
    assert_eq!((&sealed.structured["count"], &sealed.structured["status"]), (&json!(1), &json!("ok")));
}

#[test]
fn the_other_cells_are_named_in_meta() {
    let answer = || Answer::message("Done.").cell_id("a").cell_id("b");
    let moved = sealed(&contract("cell.move", Shape::Message), Ok(answer()));
    assert_eq!(moved.meta["io.jupyter-mcp/cell_id"], "a");
    assert_eq!(moved.meta["io.jupyter-mcp/cell_ids"], json!(["b"]));
    let deleted = sealed(&contract("cell.delete", Shape::Message), Ok(answer()));
    assert_eq!(deleted.meta["io.jupyter-mcp/cell_ids"], json!(["a", "b"]));
}

#[test]
fn secrets_are_nowhere() {
    let parts = vec![Part::Text("a hush-hush b".into()), Part::Text("hush\u{7}-hush".into())];
    let answer = Answer::outputs(parts)
        .with("url", "http://h/?token=hush-hush")
        .with("hush-hush", json!([{"x": "hush-hush"}]))
        .note("hush-hush")
        .cell_id("hush-hush");
    let sealed = sealed(&contract("cell.execute", Shape::Outputs), Ok(answer));
    assert_eq!(texts(&sealed), ["a [token] b", "[token]", "[token]"]);
    assert_eq!(sealed.structured["url"], "http://h/?token=[token]");
    assert_eq!(sealed.meta["io.jupyter-mcp/cell_id"], "[token]");
    let failure = Failure::new(Code::Internal, "it said hush-hush").with("detail", "hush-hush");
    super::tests::sealed(&contract("cell.execute", Shape::Outputs), Err(failure));
}

#[test]
fn long_text_is_cut_and_its_head_tail_and_error_stay() {
    let parts = vec![
        Part::Text(format!("head\n{}tail\n", "a long line of output\n".repeat(100_000))),
        Part::Text("Traceback (most recent call last)\nValueError: bad row".into()),
    ];
    let contract = contract("cell.execute", Shape::Outputs);
    let sealed = sealed(&contract, Ok(Answer::outputs(parts).with("status", "error")));
    let texts = texts(&sealed);
    assert!(texts[0].starts_with("head\n") && texts[0].ends_with("tail\n"));
    assert!(texts[0].contains("characters left out ...]"));
    assert!(texts[1].ends_with("ValueError: bad row"));
    assert!(texts[2].contains("cut from 2,200,063 to 100,000 characters"), "{}", texts[2]);
    assert_eq!(sealed.structured["outputs"], sealed.structured["result"]);
    assert_eq!(sealed.structured["outputs"][1], texts[1]);
    assert!(sealed.structured["truncated"]["bytes"].as_u64().unwrap() > 2_200_000);
}

#[test]
fn every_shape_keeps_tight_limits() {
    let limits = Limits { text_chars: 2_000, structured_bytes: 6_000, image_bytes: 262_144 };
    let long = || "a \"quoted\" word\n".repeat(5_000);
    let fields = || Map::from_iter([("sandbox".to_owned(), json!({"env": long(), "n": 1}))]);
    let records = || (0..1_000).map(|n| json!({"id": n})).collect();
    let rows = || (0..1_000).map(|n| vec![n.to_string(), "name".to_owned()]).collect();
    let parts = || vec![Part::Text(long()), image("A".repeat(40_000)), Part::Text("KeyError: 'x'".into())];
    let many = || (0..2_000).map(|n| if n % 2 == 0 { Part::Text(n.to_string()) } else { image("AAAA") }).collect();
    let cases = [
        (Shape::Message, Ok(Answer::message(long()).with("source", long()).note("A note."))),
        (Shape::Rows, Ok(Answer::rows(COLUMNS, rows(), "").with("total", 1_000).note("A note."))),
        (Shape::Outputs, Ok(Answer::outputs(parts()).with("source", long()))),
        (Shape::Outputs, Ok(Answer::outputs(many()))),
        (Shape::Object, Ok(Answer::object("Started.", fields()).with("log", long()).note("A note."))),
        (Shape::List, Ok(Answer::list(records(), "").note("A note."))),
        (Shape::Outputs, Err(Failure::new(Code::KernelDied, long()).parts(parts()))),
        (Shape::Message, Err(Failure::new(Code::Internal, long()).with("log", long()))),
    ];
    for (shape, result) in cases {
        let contract = contract("a.kind", shape);
        let is_error = result.is_err();
        let sealed = seal(&contract, result, &limits, &["hush-hush".to_owned()]);
        assert_keeps_promises(&contract, &sealed, &limits);
        assert_eq!(sealed.is_error, is_error, "{shape:?}: {}", sealed.structured);
        assert_ne!(sealed.structured["error"]["code"], if is_error { "" } else { "internal" });
        assert!(sealed.structured.get("truncated").is_some(), "{shape:?}");
    }
}

#[test]
fn json_texts_stay_json_under_a_tight_limit() {
    let limits = Limits { text_chars: 2_000, ..Limits::default() };
    let fields = Map::from_iter([("sandbox".to_owned(), json!({"log": "x\n".repeat(50_000)}))]);
    let object = contract("sandbox.launch", Shape::Object);
    let sealed = seal(&object, Ok(Answer::object("Started.", fields)), &limits, &[]);
    let mut shown: Value = serde_json::from_str(texts(&sealed)[0]).unwrap();
    shown["kind"] = json!("sandbox.launch");
    assert_eq!(shown, sealed.structured);
}

#[test]
fn a_large_image_is_in_content_and_named_in_the_structure() {
    let outputs = contract("cell.execute", Shape::Outputs);
    let answer = || Ok(Answer::outputs(vec![Part::Text("a plot".into()), image("A".repeat(400_000))]));
    let sealed = sealed(&outputs, answer());
    assert!(matches!(&sealed.content[1], Block::Image { data, .. } if data.len() == 400_000));
    assert_eq!(sealed.structured["outputs"][1]["size"], 300_000);
    assert_eq!(sealed.structured["images"], 1);
    let all_out = Limits { image_bytes: 0, ..Limits::default() };
    let sealed = seal(&outputs, Ok(Answer::outputs(vec![image("AAAA")])), &all_out, &[]);
    assert!(sealed.structured["outputs"][0].get("data").is_none());
}

#[test]
fn an_image_under_its_limit_keeps_its_data_with_text_beside_it() {
    let outputs = contract("cell.execute", Shape::Outputs);
    let parts = vec![Part::Text("x".repeat(2_000_000)), image("A".repeat(340_000))];
    let sealed = sealed(&outputs, Ok(Answer::outputs(parts)));
    assert_eq!(sealed.structured["outputs"][1]["data"].as_str().map(str::len), Some(340_000));
}

#[test]
fn fifty_megabytes_are_sealed_in_time() {
    let parts = vec![Part::Text("a line of output\n".repeat(3_000_000)), Part::Text("x".repeat(5_000_000))];
    let began = std::time::Instant::now();
    sealed(&contract("cell.execute", Shape::Outputs), Ok(Answer::outputs(parts)));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
