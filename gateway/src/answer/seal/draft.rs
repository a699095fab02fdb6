//! Both halves of one answer while they are made.

use serde_json::{Map, Value, json};

use super::{Contract, Limits};
use crate::answer::content::{self, Block};
use crate::answer::hint::hint;
use crate::answer::listing::{self, Listing};
use crate::answer::mask::Mask;
use crate::answer::outputs::output_list;
use crate::answer::shrink::{json_length, shrink};
use crate::answer::text::{self, json_bytes};
use crate::answer::{Answer, Body, Code, Failure, Part, Shape, image};

/// What is kept free in the structured half for `kind`, the counts and `truncated`.
const FRAME: usize = 600;
/// What is kept free in the text for sentences about what was cut.
const NOTE: usize = 400;
/// Limits below these say nothing any more.
const LEAST: (usize, usize) = (1_000, 4_000);

/// `content` and `structuredContent`.
pub(super) type Halves = (Vec<Block>, Map<String, Value>);

pub(super) struct Draft<'a> {
    contract: &'a Contract,
    mask: &'a Mask,
    limits: Limits,
    keys: Map<String, Value>,
    blocks: Vec<Block>,
    extra: Map<String, Value>,
    notes: Vec<String>,
    /// How many bytes were cut to what is there, all cuts together.
    cut_from: usize,
}

impl<'a> Draft<'a> {
    pub(super) fn new(contract: &'a Contract, limits: &Limits, mask: &'a Mask) -> Self {
        let limits = Limits {
            text_chars: limits.text_chars.max(LEAST.0),
            structured_bytes: limits.structured_bytes.max(LEAST.1),
            image_bytes: limits.image_bytes,
        };
        let keys = Map::from_iter([("kind".to_owned(), contract.kind.into())]);
        let (blocks, extra, notes) = (Vec::new(), Map::new(), Vec::new());
        Self { contract, mask, limits, keys, blocks, extra, notes, cut_from: 0 }
    }

    /// An answer of a call that went well.
    pub(super) fn answer(mut self, answer: Answer) -> Halves {
        self.take_extra(answer.extra, answer.notes);
        match answer.body {
            Body::Message(text) => self.message(&text),
            Body::Rows { rows, empty, .. } if rows.is_empty() => self.message(&empty),
            Body::Rows { columns, rows, .. } => self.rows(columns, rows),
            Body::Outputs(parts) => {
                let parts = self.parts(parts);
                self.outputs(&parts, self.room());
            }
            Body::Object { message, fields } => self.object(message, fields),
            Body::List { records, empty } => self.list(records, empty),
        }
        self.finish()
    }

    /// An answer of a call that failed: what was produced so far, and the sentence.
    pub(super) fn failure(mut self, failure: Failure) -> Halves {
        self.take_extra(*failure.extra, failure.notes);
        let message = self.sentence(failure.code, &failure.message);
        let mut parts = self.parts(failure.parts);
        parts.push(Part::Text(message.clone()));
        match self.contract.shape {
            Shape::Outputs => self.outputs(&parts, self.room() - message.len().min(self.room())),
            shape => {
                self.blocks = content::blocks(&parts);
                let result = if shape == Shape::List { json!([message]) } else { json!(message) };
                self.keys.insert("result".to_owned(), result);
            }
        }
        let error = json!({"code": failure.code.as_str(), "message": message});
        self.keys.insert("error".to_owned(), error);
        self.finish()
    }

    /// The failure's message, short enough to stand in three places.
    fn sentence(&mut self, code: Code, message: &str) -> String {
        let message = if message.trim().is_empty() { code.meaning() } else { message };
        let message = self.mask.text(message);
        let Some(cut) = text::cut(&message, self.room() / 5, json_bytes) else {
            return message.into_owned();
        };
        self.cut_from += message.len();
        cut
    }

    fn message(&mut self, text: &str) {
        let text = self.mask.text(text);
        self.blocks.push(content::text_block(&text));
        let cut = text::cut(&text, self.room(), json_bytes);
        if cut.is_some() {
            self.cut_from += text.len();
        }
        let result = cut.unwrap_or_else(|| text.into_owned());
        self.keys.insert("result".to_owned(), result.into());
    }

    fn rows(&mut self, columns: &[&str], mut rows: Vec<Vec<String>>) {
        for value in rows.iter_mut().flatten() {
            self.mask.string(value);
        }
        let listing = listing::table(columns, rows, self.text_room(), self.room());
        self.listing(listing);
    }

    fn list(&mut self, mut records: Vec<Value>, empty: String) {
        for record in &mut records {
            self.mask.value(record);
        }
        let listing = listing::list(records, empty, self.text_room(), self.room());
        self.listing(listing);
    }

    fn listing(&mut self, listing: Listing) {
        self.blocks.push(content::text_block(&listing.text));
        if let Some(missing) = listing.missing {
            self.blocks.push(Block::Text(format!("{missing} {}", hint(self.contract))));
        }
        self.cut_from += listing.cut_from.unwrap_or(0);
        self.keys.extend(listing.keys);
    }

    fn outputs(&mut self, parts: &[Part], room: usize) {
        self.blocks = content::blocks(parts);
        // The list is there twice, as `result` and as `outputs`.
        let list = output_list(parts, &self.limits, room / 2);
        self.cut_from += list.cut_from.unwrap_or(0);
        let count = list.entries.len();
        let entries = Value::Array(list.entries);
        self.keys.insert("result".to_owned(), entries.clone());
        self.keys.insert("outputs".to_owned(), entries);
        self.keys.insert("count".to_owned(), count.into());
        self.keys.insert("images".to_owned(), list.images.into());
    }

    /// The text of an object is JSON, so it is made small before, never cut.
    fn object(&mut self, message: String, fields: Map<String, Value>) {
        let mut answer = Map::from_iter([("message".to_owned(), message.into())]);
        add(&mut answer, fields);
        self.mask.map(&mut answer);
        add(&mut answer, std::mem::take(&mut self.extra));
        let mut answer = Value::Object(answer);
        let room = self.text_room().min(self.limits.structured_bytes - FRAME);
        self.cut_from += shrink(&mut answer, room).unwrap_or(0);
        if let Value::Object(answer) = answer {
            add(&mut self.keys, answer);
        }
        self.tell_of_cuts();
        let mut shown = self.keys.clone();
        shown.shift_remove("kind");
        self.blocks.push(content::text_block(&Value::Object(shown).to_string()));
    }

    fn finish(mut self) -> Halves {
        add(&mut self.keys, std::mem::take(&mut self.extra));
        self.tell_of_cuts();
        self.blocks.extend(self.notes.iter().map(|note| content::text_block(note)));
        for block in &mut self.blocks {
            // Once more: a secret may have had control characters in it that are gone now.
            if let Block::Text(text) = block {
                self.mask.string(text);
            }
        }
        (content::limited(self.blocks, self.limits.text_chars, self.contract), self.keys)
    }

    fn tell_of_cuts(&mut self) {
        if self.cut_from == 0 || self.keys.contains_key("truncated") {
            return;
        }
        let told = json!({
            "bytes": self.cut_from,
            "limit": self.limits.structured_bytes,
            "hint": hint(self.contract),
        });
        self.keys.insert("truncated".to_owned(), told);
    }

    /// The keys beside the answer itself, in at most half of the structured half.
    fn take_extra(&mut self, mut extra: Map<String, Value>, mut notes: Vec<String>) {
        self.mask.map(&mut extra);
        for note in &mut notes {
            self.mask.string(note);
        }
        if !notes.is_empty() {
            extra.insert("notes".to_owned(), notes.clone().into());
        }
        let mut extra = Value::Object(extra);
        self.cut_from += shrink(&mut extra, self.limits.structured_bytes / 2).unwrap_or(0);
        if let Value::Object(extra) = extra {
            self.extra = extra;
        }
        self.notes = notes;
    }

    fn parts(&self, mut parts: Vec<Part>) -> Vec<Part> {
        for part in &mut parts {
            if let Part::Image { data, .. } = part {
                *data = image::without_breaks(data).into_owned();
            }
            self.mask.part(part);
        }
        parts
    }

    /// Bytes left for the answer itself in the structured half.
    fn room(&self) -> usize {
        let extra = self.extra.iter().map(|(key, value)| key.len() + 4 + json_length(value));
        self.limits.structured_bytes.saturating_sub(extra.sum::<usize>() + FRAME)
    }

    /// Characters left for a text that must not be cut.
    fn text_room(&self) -> usize {
        let notes: usize = self.notes.iter().map(|note| note.chars().count()).sum();
        self.limits.text_chars.saturating_sub(notes + NOTE).max(LEAST.0 - NOTE)
    }
}

/// Adds the keys that aren't there yet: those of the shape are its own.
fn add(keys: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        keys.entry(key).or_insert(value);
    }
}
