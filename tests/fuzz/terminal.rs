//! Any text as a terminal shows it: no control character is left but TAB and LF, and it hardly grows.

#![no_main]

use cellgate::answer::plain;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let shown = plain(text);
    assert!(!shown.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')), "{shown:?}");
    assert!(shown.len() <= 4 * text.len() + 1024, "{} of {}", shown.len(), text.len());
});
