//! Tables and lists of records: what has no room is left out by whole rows, the same in both halves.

use serde_json::{Map, Value};

use super::fit;
use super::shrink::json_length;
use super::text::{json_bytes, plural, total};

/// A table or list with the rows that there is room for.
pub(super) struct Listing {
    /// The text of it.
    pub(super) text: String,
    /// Its keys in the structured half.
    pub(super) keys: Map<String, Value>,
    /// Says how many rows are left out, when some are.
    pub(super) missing: Option<String>,
    /// How large it was, when some are.
    pub(super) cut_from: Option<usize>,
}

/// A table in no more than `text_room` characters and `room` bytes of JSON.
pub(super) fn table(columns: &[&str], mut rows: Vec<Vec<String>>, text_room: usize, room: usize) -> Listing {
    let header = line(columns);
    let texts: Vec<_> = rows.iter().map(|row| line(row).chars().count() + 1).collect();
    let datas: Vec<_> = rows.iter().map(|row| row_cost(columns, row)).collect();
    let text_ends = fit::ends(&texts, text_room.saturating_sub(header.len()));
    let ends = shorter(text_ends, fit::ends(&datas, room.saturating_sub(4 * header.len())));
    let missing = leave_out(&mut rows, ends, "row");
    let cut_from = missing.is_some().then(|| datas.iter().sum());
    let lines = std::iter::once(header).chain(rows.iter().map(|row| line(row)));
    let text = lines.collect::<Vec<_>>().join("\n");
    let items: Vec<_> = rows.into_iter().map(|row| item(columns, row)).collect();
    let mut keys = Map::new();
    keys.insert("result".to_owned(), text.clone().into());
    keys.insert("columns".to_owned(), columns.into());
    let count = items.len();
    keys.insert("items".to_owned(), items.into());
    keys.insert("count".to_owned(), count.into());
    Listing { text, keys, missing, cut_from }
}

/// A list of records whose text is JSON, in no more than `text_room` and `room` bytes.
pub(super) fn list(mut records: Vec<Value>, empty: String, text_room: usize, room: usize) -> Listing {
    let costs: Vec<_> = records.iter().map(|record| json_length(record) + 1).collect();
    let ends = fit::ends(&costs, text_room.min(room));
    let missing = leave_out(&mut records, ends, "record");
    let cut_from = missing.is_some().then(|| costs.iter().sum());
    let records = Value::Array(records);
    let text = if costs.is_empty() { empty } else { records.to_string() };
    let keys = Map::from_iter([("result".to_owned(), records)]);
    Listing { text, keys, missing, cut_from }
}

fn line<T: AsRef<str>>(values: &[T]) -> String {
    let one_line = |value: &T| value.as_ref().replace(['\t', '\r', '\n'], " ");
    values.iter().map(one_line).collect::<Vec<_>>().join("\t")
}

/// A row's bytes in `result` and in `items`.
fn row_cost(columns: &[&str], row: &[String]) -> usize {
    let values: usize = row.iter().map(|value| total(value, json_bytes)).sum();
    let names: usize = columns.iter().map(|column| column.len() + 6).sum();
    2 * values + names + 2 * row.len() + 4
}

fn item(columns: &[&str], row: Vec<String>) -> Value {
    let named = |(column, value): (&&str, String)| ((*column).to_owned(), Value::String(value));
    Value::Object(columns.iter().zip(row).map(named).collect())
}

fn shorter(one: (usize, usize), other: (usize, usize)) -> (usize, usize) {
    if one.0 + one.1 < other.0 + other.1 { one } else { other }
}

fn leave_out<T>(rows: &mut Vec<T>, (head, tail): (usize, usize), word: &str) -> Option<String> {
    let all = rows.len();
    if head + tail >= all {
        return None;
    }
    rows.drain(head..all - tail);
    let shown = plural(all - head - tail, word);
    Some(format!("[{shown} of {all} left out after the first {head}.]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: usize) -> Vec<Vec<String>> {
        (0..number).map(|n| vec![format!("file {n}"), "12B".to_owned()]).collect()
    }

    #[test]
    fn values_stay_on_their_line_in_the_text_and_true_in_items() {
        let row = vec![vec!["a\tb\r\nc".to_owned(), String::new()]];
        let listing = table(&["Path", "Size"], row, 1_000, 1_000);
        assert_eq!(listing.text, "Path\tSize\na b  c\t");
        assert_eq!(listing.keys["items"][0]["Path"], "a\tb\r\nc");
        assert_eq!((listing.keys["count"].as_u64(), listing.missing), (Some(1), None));
    }

    #[test]
    fn rows_without_room_are_left_out_of_both_halves() {
        for (text_room, room) in [(1_000, 1_000_000), (100_000, 6_000)] {
            let listing = table(&["Path", "Size"], rows(1_000), text_room, room);
            let count = listing.text.lines().count() - 1;
            assert!(count > 40 && count < 1_000, "{count}");
            assert_eq!(listing.keys["count"], count);
            assert!(listing.text.chars().count() <= text_room);
            assert!(json_length(&Value::Object(listing.keys)) <= room);
            assert!(listing.text.ends_with("file 999\t12B"));
            assert!(listing.missing.unwrap().contains(&format!("{} rows of 1000", 1_000 - count)));
        }
    }

    #[test]
    fn a_list_stays_json() {
        let records: Vec<_> = (0..1_000).map(|n| serde_json::json!({"id": n})).collect();
        let listing = list(records, String::new(), 1_000, 9_000);
        let parsed: Vec<Value> = serde_json::from_str(&listing.text).unwrap();
        assert_eq!((&parsed[0]["id"], &parsed[parsed.len() - 1]["id"]), (&0.into(), &999.into()));
        assert_eq!(listing.keys["result"], Value::Array(parsed));
    }
}
