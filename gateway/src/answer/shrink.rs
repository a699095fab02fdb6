//! JSON values that have to be smaller: long strings lose their middle, then long lists do.

use std::io::{self, Write};

use serde_json::Value;

use super::fit;
use super::text::{self, json_bytes};

/// Strings up to this size stay whole.
const SMALLEST: usize = 400;

/// Makes the value take no more than `limit` bytes of JSON; answers what it took when it had to.
pub(super) fn shrink(value: &mut Value, limit: usize) -> Option<usize> {
    let before = json_length(value);
    if before <= limit {
        return None;
    }
    let mut costs = Vec::new();
    string_costs(value, &mut costs);
    let frame = before - costs.iter().sum::<usize>();
    let level = fit::level(costs.into_iter(), limit.saturating_sub(frame));
    cut_strings(value, level.max(SMALLEST));
    for cut in [cut_lists as fn(&mut Value, usize), cut_objects] {
        let mut keep = longest(value);
        while keep > 1 && json_length(value) > limit {
            keep = keep.div_ceil(2);
            cut(value, keep);
            if keep == 2 {
                break;
            }
        }
    }
    Some(before)
}

/// How many bytes the value takes as JSON.
pub(super) fn json_length(value: &Value) -> usize {
    let mut count = Count(0);
    // A value has no keys that aren't strings, and counting can't fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn string_costs(value: &Value, costs: &mut Vec<usize>) {
    match value {
        Value::String(text) => costs.push(text::total(text, json_bytes)),
        Value::Array(items) => items.iter().for_each(|item| string_costs(item, costs)),
        Value::Object(map) => map.values().for_each(|item| string_costs(item, costs)),
        _ => {}
    }
}

fn cut_strings(value: &mut Value, level: usize) {
    match value {
        Value::String(text) => {
            if let Some(cut) = text::cut(text, level, json_bytes) {
                *text = cut;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| cut_strings(item, level)),
        Value::Object(map) => map.values_mut().for_each(|item| cut_strings(item, level)),
        _ => {}
    }
}

fn longest(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(longest).max().unwrap_or(0).max(items.len()),
        Value::Object(map) => map.values().map(longest).max().unwrap_or(0).max(map.len()),
        _ => 0,
    }
}

/// Keeps the head and the tail of every longer list.
fn cut_lists(value: &mut Value, keep: usize) {
    match value {
        Value::Array(items) => {
            if items.len() > keep {
                items.drain(keep.div_ceil(2)..items.len() - keep / 2);
            }
            for item in items {
                cut_lists(item, keep);
            }
        }
        Value::Object(map) => map.values_mut().for_each(|item| cut_lists(item, keep)),
        _ => {}
    }
}

/// Keeps the first keys of every larger object.
fn cut_objects(value: &mut Value, keep: usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| cut_objects(item, keep)),
        Value::Object(map) => {
            map.values_mut().for_each(|item| cut_objects(item, keep));
            let mut left = keep;
            map.retain(|_, _| {
                let kept = left > 0;
                left = left.saturating_sub(1);
                kept
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_strings_are_cut_and_short_ones_stay() {
        let mut value = json!({"id": "abc", "source": "x".repeat(100_000), "n": 5});
        assert_eq!(shrink(&mut value, 5_000), Some(100_000 + 30));
        assert!(json_length(&value) <= 5_000);
        assert_eq!((value["id"].as_str(), value["n"].as_u64()), (Some("abc"), Some(5)));
        assert!(value["source"].as_str().unwrap().contains("characters left out"));
    }

    #[test]
    fn long_lists_keep_their_ends() {
        let cells: Vec<_> = (0..10_000).map(|n| json!({"index": n, "type": "code"})).collect();
        let mut value = json!({"cells": cells, "total": 10_000});
        shrink(&mut value, 10_000);
        assert!(json_length(&value) <= 10_000);
        let cells = value["cells"].as_array().unwrap();
        assert_eq!((&cells[0]["index"], &cells[cells.len() - 1]["index"]), (&json!(0), &json!(9_999)));
        assert!(cells.len() > 100 && cells[0]["type"] == "code");
    }

    #[test]
    fn an_object_of_many_keys_gets_small_too() {
        let map: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("key {n}"), json!(n))).collect();
        let mut value = json!({"metadata": map});
        shrink(&mut value, 5_000);
        assert!(json_length(&value) <= 5_000);
    }
}
