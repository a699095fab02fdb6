//! The list of outputs in the structured half.

use serde_json::Value;

use super::content::{gap, tells_of_error};
use super::fit::{self, Share, Wish};
use super::image;
use super::text::{self, json_bytes};
use super::{Limits, Part};

/// The outputs as data, in order, in no more than `room` bytes of JSON.
pub(super) struct OutputList {
    pub(super) entries: Vec<Value>,
    /// Every image of the cell.
    pub(super) images: usize,
    /// How large it was, when it had to be cut.
    pub(super) cut_from: Option<usize>,
}

/// Makes the list. The texts in it are whole where there is room, images too; base64 is never cut.
pub(super) fn output_list(parts: &[Part], limits: &Limits, room: usize) -> OutputList {
    let images = parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
    let texts: usize = parts.iter().map(text_cost).sum();
    let most = inline_limit(parts, limits.image_bytes, room - texts.min(room / 4));
    let entries: Vec<_> = parts.iter().map(|part| entry(part, most)).collect();
    let wishes: Vec<_> = entries.iter().enumerate().map(|(at, entry)| wish(at, entry)).collect();
    let size: usize = wishes.iter().map(|wish| wish.cost).sum();
    if size <= room {
        return OutputList { entries, images, cut_from: None };
    }
    let shares = fit::share(&wishes, room);
    OutputList { entries: kept(entries, &shares), images, cut_from: Some(size) }
}

fn text_cost(part: &Part) -> usize {
    match part {
        // The quotes and the comma.
        Part::Text(text) => text::total(text, json_bytes) + 3,
        Part::Image { .. } => 0,
    }
}

/// Up to which size images can be in the list whole: the smallest come first.
fn inline_limit(parts: &[Part], limit: usize, room: usize) -> usize {
    let length = |part: &Part| match part {
        Part::Image { data, .. } => Some(data.len()),
        Part::Text(_) => None,
    };
    let mut lengths: Vec<_> = parts.iter().filter_map(length).collect();
    lengths.sort_unstable();
    let mut left = room;
    for length in lengths {
        match left.checked_sub(length + FRAME) {
            Some(rest) => left = rest,
            None => return limit.min((length * 3 / 4).saturating_sub(3)),
        }
    }
    limit
}

/// What surrounds an image's data in JSON, and more than what stands in its place.
const FRAME: usize = 160;

fn entry(part: &Part, limit: usize) -> Value {
    match part {
        Part::Text(text) => Value::String(text.clone()),
        Part::Image { mime_type, data } => image::structured(mime_type, data, limit),
    }
}

fn wish(at: usize, entry: &Value) -> Wish {
    match entry {
        Value::String(text) => Wish {
            // The quotes and the comma.
            cost: text::total(text, json_bytes) + 3,
            rigid: false,
            first: at == 0 || tells_of_error(text),
        },
        image => {
            let data = image.get("data").and_then(Value::as_str).map_or(0, str::len);
            Wish { cost: data + FRAME, rigid: true, first: false }
        }
    }
}

fn kept(entries: Vec<Value>, shares: &[Share]) -> Vec<Value> {
    let mut kept = Vec::new();
    let mut dropped = 0;
    for (entry, share) in entries.into_iter().zip(shares) {
        if *share == Share::Dropped {
            dropped += 1;
            continue;
        }
        if dropped > 0 {
            kept.push(gap(dropped).into());
            dropped = 0;
        }
        kept.push(cut(entry, *share));
    }
    if dropped > 0 {
        kept.push(gap(dropped).into());
    }
    kept
}

fn cut(entry: Value, share: Share) -> Value {
    match (entry, share) {
        (Value::String(text), Share::Cut(room)) => {
            text::cut(&text, room.saturating_sub(3), json_bytes).unwrap_or(text).into()
        }
        (entry, _) => entry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(length: usize) -> Part {
        Part::Image { mime_type: "image/png".into(), data: "A".repeat(length) }
    }

    #[test]
    fn without_room_the_largest_image_loses_its_data_first() {
        let parts = [image(40_000), image(4_000), Part::Text("text".into())];
        let list = output_list(&parts, &Limits::default(), 20_000);
        assert_eq!(list.entries[0]["size"], 30_000);
        assert_eq!(list.entries[1]["data"].as_str().map(str::len), Some(4_000));
        assert_eq!((list.images, list.cut_from), (2, None));
    }

    #[test]
    fn long_texts_are_cut_to_the_room_there_is() {
        let parts = [Part::Text("\u{1}\"x\n".repeat(20_000)), Part::Text("ZeroDivisionError: x".into())];
        let list = output_list(&parts, &Limits::default(), 10_000);
        assert!(serde_json::to_string(&list.entries).unwrap().len() <= 10_000);
        assert_eq!(list.entries[1], "ZeroDivisionError: x");
        assert!(list.cut_from.is_some());
    }
}
