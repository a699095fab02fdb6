use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

#[test]
fn a_run_that_never_stops_displaying_keeps_what_there_is_room_for_and_its_error() {
    let mut outputs = Outputs::default();
    let picture = json!({"data": {"image/png": "A".repeat(1 << 20)}, "metadata": {}});
    for _ in 0..300 {
        outputs.apply("display_data", &picture);
        outputs.apply("stream", &json!({"name": "stdout", "text": "shown\n"}));
    }
    outputs.apply("error", &json!({"ename": "E", "evalue": "v", "traceback": []}));
    let stored = outputs.to_json();
    let shown = stored.iter().filter(|output| output["output_type"] == "display_data").count();
    assert!((25..32).contains(&shown), "{shown}");
    let note = stored[stored.len() - 2]["text"].as_str().unwrap();
    assert!(note.contains("outputs were dropped"), "{note}");
    assert_eq!(stored[stored.len() - 1]["ename"], "E");
    outputs.apply("clear_output", &json!({"wait": false}));
    outputs.apply("display_data", &picture);
    assert_eq!(outputs.to_json().len(), 1);
}

fn run(messages: &[(&str, Value)]) -> Outputs {
    let mut outputs = Outputs::default();
    for (message_type, content) in messages {
        assert_eq!(outputs.apply(message_type, content), None, "{message_type}");
    }
    outputs
}

fn stdout(text: &str) -> (&'static str, Value) {
    ("stream", json!({"name": "stdout", "text": text}))
}

fn stderr(text: &str) -> (&'static str, Value) {
    ("stream", json!({"name": "stderr", "text": text}))
}

fn display(message_type: &'static str, text: &str, id: &str) -> (&'static str, Value) {
    let transient = json!({"display_id": id});
    (message_type, json!({"data": {"text/plain": text}, "metadata": {}, "transient": transient}))
}

fn clear(wait: bool) -> (&'static str, Value) {
    ("clear_output", json!({"wait": wait}))
}

/// What each output says, in short.
fn said(outputs: &Outputs) -> Vec<String> {
    let text = |output: &Value| output.get("text").or_else(|| output.pointer("/data/text~1plain")).map(source::joined);
    outputs.to_json().iter().map(|output| text(output).unwrap_or_default()).collect()
}

#[test]
fn streams_of_one_name_merge_while_nothing_else_comes_between() {
    let outputs = run(&[stdout("A\n"), stdout("C\r"), stderr("B\n"), stdout("D"), stdout("")]);
    let stored = json!([
        {"name": "stdout", "output_type": "stream", "text": "A\nC\r"},
        {"name": "stderr", "output_type": "stream", "text": "B\n"},
        {"name": "stdout", "output_type": "stream", "text": "D"},
    ]);
    assert_eq!(Value::from(outputs.to_json()), stored);
}

#[test]
fn outputs_are_stored_with_their_own_types_and_nothing_transient() {
    let result = json!({"data": {"text/plain": "'R'"}, "execution_count": 3, "metadata": {}});
    let error = json!({"ename": "ValueError", "evalue": "bad row", "traceback": ["\u{1b}[31mValueError\u{1b}[0m"]});
    let outputs = run(&[
        display("display_data", "shown", "d1"),
        ("execute_result", result),
        ("error", error),
        ("status", json!({"execution_state": "idle"})),
    ]);
    let stored = json!([
        {"data": {"text/plain": "shown"}, "metadata": {}, "output_type": "display_data"},
        {"data": {"text/plain": "'R'"}, "execution_count": 3, "metadata": {}, "output_type": "execute_result"},
        {"ename": "ValueError", "evalue": "bad row", "output_type": "error", "traceback": ["\u{1b}[31mValueError\u{1b}[0m"]},
    ]);
    assert_eq!(Value::from(outputs.to_json()).to_string(), stored.to_string());
}

#[test]
fn what_a_kernel_left_out_is_stored_so_that_it_validates() {
    let outputs = run(&[
        ("display_data", json!({})),
        ("execute_result", json!({"data": 1})),
        ("error", json!({"evalue": 7, "traceback": [1]})),
    ]);
    let stored = json!([
        {"data": {}, "metadata": {}, "output_type": "display_data"},
        {"data": {}, "execution_count": null, "metadata": {}, "output_type": "execute_result"},
        {"ename": "", "evalue": "7", "output_type": "error", "traceback": ["1"]},
    ]);
    assert_eq!(Value::from(outputs.to_json()), stored);
    assert!(run(&[("stream", json!({})), ("stream", Value::Null), ("clear_output", Value::Null)]).is_empty());
}

#[test]
fn a_clear_happens_now_or_with_the_next_output() {
    assert!(run(&[stdout("a"), clear(false)]).is_empty());
    assert_eq!(said(&run(&[stdout("frame 1"), clear(true)])), ["frame 1"]);
    assert_eq!(
        said(&run(&[stdout("frame 1"), clear(true), stdout("frame 2"), clear(true), stdout("frame 3")])),
        ["frame 3"]
    );
    assert_eq!(said(&run(&[stdout("a"), clear(true), display("display_data", "b", "d"), stdout("c")])), ["b", "c"]);
    assert_eq!(said(&run(&[stdout("a"), clear(true), clear(false), stdout("b"), stdout("c")])), ["bc"]);
}

#[test]
fn an_update_changes_every_display_of_that_name() {
    let outputs = run(&[
        display("display_data", "first", "d1"),
        display("display_data", "other", "d2"),
        display("display_data", "again", "d1"),
        display("update_display_data", "final", "d1"),
    ]);
    assert_eq!(said(&outputs), ["final", "other", "final"]);
    let displays = [("d1".to_owned(), 0), ("d2".to_owned(), 1), ("d1".to_owned(), 2)];
    assert_eq!(outputs.displays(), displays);
}

#[test]
fn an_update_for_another_run_is_handed_back() {
    let mut outputs = run(&[display("display_data", "mine", "d1"), clear(false), stdout("done")]);
    for id in ["elsewhere", "d1"] {
        let (message_type, content) = display("update_display_data", "from the next cell", id);
        let update = outputs.apply(message_type, &content).unwrap();
        assert_eq!((update.display_id.as_str(), update.data), (id, json!({"text/plain": "from the next cell"})));
    }
    assert_eq!(said(&outputs), ["done"]);
    assert!(outputs.displays().is_empty());
}

#[test]
fn the_newest_line_is_the_last_one_to_read() {
    let newest = |messages: &[(&str, Value)]| run(messages).last_text();
    assert_eq!(newest(&[]), None);
    assert_eq!(newest(&[stdout("tick 1\n"), stdout("tick 2\n\n")]).as_deref(), Some("tick 2"));
    assert_eq!(newest(&[stdout("step 1/5\rstep 2/5\r")]).as_deref(), Some("step 2/5"));
    assert_eq!(newest(&[stdout("a\n"), display("display_data", "b", "d")]).as_deref(), Some("b"));
    assert_eq!(
        newest(&[stdout("a\n"), ("display_data", json!({"data": {"image/png": "iVBO"}}))]).as_deref(),
        Some("a")
    );
    assert_eq!(newest(&[("error", json!({"ename": "E", "evalue": "v"}))]).as_deref(), Some("E: v"));
    assert!(newest(&[stdout(&"é".repeat(100_000))]).unwrap().chars().count() <= NEWEST);
}

#[test]
fn fifty_megabytes_in_a_hundred_thousand_messages_take_no_time_and_say_what_is_lost() {
    let begun = Instant::now();
    let mut outputs = Outputs::default();
    let (message_type, content) = stdout(&format!("{}\n", "x".repeat(499)));
    for _ in 0..100_000 {
        outputs.apply(message_type, &content);
        outputs.last_text();
    }
    let kept = said(&outputs).concat();
    assert!(kept.len() < 33_000_000 && kept.contains("bytes of output were dropped"), "{}", kept.len());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn streams_are_what_came_in_its_order(parts in prop::collection::vec((any::<bool>(), "[a\r\n]{0,4}"), 0..20)) {
        let messages: Vec<_> = parts.iter().map(|(to_stdout, text)| if *to_stdout { stdout(text) } else { stderr(text) }).collect();
        let outputs = run(&messages).to_json();
        for (to_stdout, name) in [(true, "stdout"), (false, "stderr")] {
            let printed: String = parts.iter().filter(|part| part.0 == to_stdout).map(|part| part.1.as_str()).collect();
            let stored: String = outputs.iter().filter(|output| output["name"] == name).map(|output| source::joined(&output["text"])).collect();
            prop_assert_eq!(stored, printed);
        }
        prop_assert!(outputs.windows(2).all(|pair| pair[0]["name"] != pair[1]["name"]));
    }

    #[test]
    fn no_message_is_too_odd(kind in "(stream|display_data|execute_result|error|clear_output|update_display_data|x)", content in any_json()) {
        let mut outputs = Outputs::default();
        outputs.apply(&kind, &content);
        outputs.last_text();
        prop_assert_eq!(outputs.to_json().is_empty(), outputs.is_empty());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,3}".prop_map(Value::from)
    ];
    let key = "(name|text|data|metadata|transient|display_id|wait|ename|evalue|traceback|text/plain|execution_count)";
    leaf.prop_recursive(3, 20, 4, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
        let object =
            prop::collection::hash_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()));
        prop_oneof![list, object]
    })
}
