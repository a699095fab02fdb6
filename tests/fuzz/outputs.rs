//! Any JSON as the contents of output messages, a line each: what is stored and what is shown of them.

#![no_main]

use cellgate::answer::{Part, render};
use cellgate::nbformat::Outputs;
use libfuzzer_sys::fuzz_target;

const TYPES: [&str; 6] = ["stream", "display_data", "execute_result", "error", "clear_output", "update_display_data"];

fuzz_target!(|text: &str| {
    let mut outputs = Outputs::default();
    for line in text.lines() {
        let (kind, content) = line.split_at_checked(1).unwrap_or_default();
        let kind = kind.bytes().next().map_or(0, usize::from) % TYPES.len();
        if let Ok(content) = serde_json::from_str(content) {
            outputs.apply(TYPES[kind], &content);
        }
    }
    for part in render(&outputs.to_json()) {
        if let Part::Text(text) = part {
            assert!(!text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
        }
    }
});
