//! Cleaning and cutting of text. Everything here is linear in the text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What one character costs against a limit.
pub(super) type Cost = fn(char) -> usize;

/// Every character costs one.
pub(super) fn characters(_: char) -> usize {
    1
}

/// A character costs the bytes that it takes inside a JSON string.
pub(super) fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        character => character.len_utf8(),
    }
}

/// What the whole text costs.
pub(super) fn total(text: &str, cost: Cost) -> usize {
    text.chars().map(cost).sum()
}

/// The text without control characters but TAB, LF and CR.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unwanted) {
        Cow::Owned(text.chars().filter(|character| !is_unwanted(*character)).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn is_unwanted(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\n' | '\r')
}

/// What a cut leaves of a text: its head, a line that says how much is missing, and its tail.
///
/// Answers `None` when the text costs no more than `limit`. Never cuts inside a character, and
/// rather between lines.
pub(super) fn cut(text: &str, limit: usize, cost: Cost) -> Option<String> {
    if total(text, cost) <= limit {
        return None;
    }
    let room = limit.saturating_sub(MARK_ROOM);
    let head = head(text, room.div_ceil(2), cost);
    let tail = tail(&text[head.len()..], room / 2, cost);
    let all = total(text, characters);
    let left_out = all - total(head, characters) - total(tail, characters);
    let mut cut = String::with_capacity(head.len() + tail.len() + MARK_ROOM);
    cut.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        cut.push('\n');
    }
    let _ = writeln!(cut, "[... {} of {} characters left out ...]", grouped(left_out), grouped(all));
    cut.push_str(tail);
    Some(cut)
}

/// Room for the line that says how much is missing.
const MARK_ROOM: usize = 80;

fn head(text: &str, room: usize, cost: Cost) -> &str {
    let end = reach(text.char_indices().map(|(at, c)| (at + c.len_utf8(), c)), room, cost);
    let head = &text[..end.unwrap_or(0)];
    match head.rfind('\n') {
        Some(at) if at >= head.len() - head.len() / 8 => &head[..=at],
        _ => head,
    }
}

fn tail(text: &str, room: usize, cost: Cost) -> &str {
    let start = reach(text.char_indices().rev(), room, cost);
    let tail = &text[start.unwrap_or(text.len())..];
    match tail.find('\n') {
        Some(at) if at < tail.len() / 8 => &tail[at + 1..],
        _ => tail,
    }
}

/// The place after the last character that there is room for.
fn reach(characters: impl Iterator<Item = (usize, char)>, room: usize, cost: Cost) -> Option<usize> {
    let mut spent = 0;
    characters
        .take_while(|(_, character)| {
            spent += cost(*character);
            spent <= room
        })
        .last()
        .map(|(at, _)| at)
}

/// The text up to `bytes` bytes, or a little less: never part of a character.
pub(super) fn start(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// A number with commas between its thousands.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of bytes as people read it.
pub(super) fn size(bytes: usize) -> String {
    let tenths = |unit: usize| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", tenths(1_000)),
        _ => format!("{} MB", tenths(1_000_000)),
    }
}

/// `1 trace`, `2 traces`.
pub(super) fn plural(number: usize, word: &str) -> String {
    format!("{} {word}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cut_keeps_head_and_tail_and_counts_what_is_missing() {
        let text = format!("first\n{}\nlast", "x".repeat(5_000));
        let cut = cut(&text, 1_000, characters).unwrap();
        assert!(cut.starts_with("first\nxxx"), "{cut}");
        assert!(cut.ends_with("xxx\nlast"), "{cut}");
        assert!(cut.contains("[... 4,091 of 5,011 characters left out ...]"), "{cut}");
    }

    #[test]
    fn clean_keeps_tab_and_line_ends_only() {
        assert_eq!(clean("a\tb\r\nc\u{1b}[0m\u{7f}\u{9b}\0d"), "a\tb\r\nc[0md");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(4_900_000), "4,900,000");
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(12_345), "12.3 kB");
        assert_eq!(plural(1, "trace"), "1 trace");
    }

    proptest! {
        #[test]
        fn cut_keeps_its_limit(text in "(\\PC|[\\n\\t\u{1}\"é🎉]){0,600}", limit in 100_usize..400) {
            for cost in [characters as Cost, json_bytes] {
                match cut(&text, limit, cost) {
                    Some(cut) => prop_assert!(total(&cut, cost) <= limit),
                    None => prop_assert!(total(&text, cost) <= limit),
                }
            }
        }

        #[test]
        fn json_bytes_is_what_json_takes(text in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(total(&text, json_bytes), json.len() - 2);
        }
    }
}
