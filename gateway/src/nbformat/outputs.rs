//! What the messages of one run come to: the outputs of its cell, as nbformat stores them.
//!
//! Streams are merged as Jupyter merges them and stored as they came, `\r` and all. A message costs
//! what it holds, however much came before.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::source;

mod bundle;
mod stream;

use bundle::{bundle, object};
use stream::Stream;

/// How many characters of the newest line are told.
const NEWEST: usize = 2000;
/// Bytes of outputs that are kept of one run. An answer and a save of them take several times as much for a moment, and several callers
/// may have such at once.
const MOST: usize = 32 << 20;

/// The output reducer of one run.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    items: Vec<Item>,
    /// Where the outputs of each `display_id` are.
    displays: HashMap<String, Vec<usize>>,
    /// `clear_output(wait=True)`: the next output replaces all.
    clear_next: bool,
    /// Bytes in `items`, about.
    held: usize,
    /// Outputs that came when there was no room any more.
    dropped: usize,
}

#[derive(Clone, Debug)]
enum Item {
    Stream(Stream),
    Other(Value),
}

/// A display update that no output of this run is meant by.
#[derive(Clone, Debug, PartialEq)]
pub struct DisplayUpdate {
    /// The name that the display was given.
    pub display_id: String,
    /// The MIME bundle to show.
    pub data: Value,
    /// The metadata of that bundle.
    pub metadata: Value,
}

impl Outputs {
    /// Takes an iopub message of this run. Gives an update back that is meant for a display of
    /// another run; messages that are no output do nothing.
    pub fn apply(&mut self, message_type: &str, content: &Value) -> Option<DisplayUpdate> {
        match message_type {
            "stream" => self.stream(content),
            "display_data" => self.display(content, json!({"output_type": "display_data"})),
            "execute_result" => {
                let count = content.get("execution_count").filter(|count| count.is_u64());
                self.display(content, json!({"execution_count": count, "output_type": "execute_result"}));
            }
            "error" => {
                self.clear_if_due();
                self.items.push(Item::Other(error(content)));
            }
            "clear_output" => self.clear(content.get("wait").and_then(Value::as_bool).unwrap_or(false)),
            "update_display_data" => return self.update(content),
            _ => {}
        }
        None
    }

    /// The outputs as they are to be stored.
    pub fn to_json(&self) -> Vec<Value> {
        let dropped = (self.dropped > 0).then(|| {
            let mebibytes = MOST >> 20;
            let note =
                format!("[{} outputs were dropped here: the gateway keeps {mebibytes} MiB of a run's]\n", self.dropped);
            json!({"name": "stderr", "output_type": "stream", "text": note})
        });
        // What ended the run comes after what was dropped.
        let last = self.items.len() - self.items.iter().rev().take_while(|item| item.is_error()).count();
        let (before, after) = self.items.split_at(last);
        before.iter().map(Item::to_json).chain(dropped).chain(after.iter().map(Item::to_json)).collect()
    }

    /// Each `display_id` of this run with the index of an output that a later update may change.
    pub fn displays(&self) -> Vec<(String, usize)> {
        let places =
            |(id, places): (&String, &Vec<usize>)| places.iter().map(|&place| (id.clone(), place)).collect::<Vec<_>>();
        let mut displays: Vec<_> = self.displays.iter().flat_map(places).collect();
        displays.sort_by_key(|(_, place)| *place);
        displays
    }

    /// The newest line that there is to read, for news of a run.
    pub fn last_text(&self) -> Option<String> {
        self.items.iter().rev().take(8).find_map(Item::last_line)
    }

    /// Whether an error is among them.
    pub fn has_error(&self) -> bool {
        self.items.iter().any(Item::is_error)
    }

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn stream(&mut self, content: &Value) {
        let name = content.get("name").and_then(Value::as_str).unwrap_or("stdout");
        let Some(text) = content.get("text").map(text).filter(|text| !text.is_empty()) else { return };
        self.clear_if_due();
        if let Some(Item::Stream(stream)) = self.items.last_mut()
            && stream.name() == name
        {
            // It bounds itself.
            stream.push(&text);
        } else if self.has_room(text.len()) {
            self.items.push(Item::Stream(Stream::new(name, &text)));
        }
    }

    fn display(&mut self, content: &Value, mut output: Value) {
        if let Value::Object(output) = &mut output {
            output.insert("data".to_owned(), bundle(content.get("data")));
            output.insert("metadata".to_owned(), object(content.get("metadata")));
            output.sort_keys();
        }
        self.clear_if_due();
        if !self.has_room(weight(&output)) {
            return;
        }
        self.items.push(Item::Other(output));
        if let Some(id) = display_id(content) {
            self.displays.entry(id.to_owned()).or_default().push(self.items.len() - 1);
        }
    }

    fn update(&mut self, content: &Value) -> Option<DisplayUpdate> {
        let display_id = display_id(content)?.to_owned();
        let (data, metadata) = (bundle(content.get("data")), object(content.get("metadata")));
        let Some(places) = self.displays.get(&display_id) else {
            return Some(DisplayUpdate { display_id, data, metadata });
        };
        for &place in places {
            if let Some(Item::Other(Value::Object(output))) = self.items.get_mut(place) {
                output.insert("data".to_owned(), data.clone());
                output.insert("metadata".to_owned(), metadata.clone());
            }
        }
        None
    }

    /// Takes the room for an output, or counts it as dropped.
    fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = self.held.saturating_add(bytes) <= MOST;
        if has_room {
            self.held += bytes;
        } else {
            self.dropped += 1;
        }
        has_room
    }

    fn clear(&mut self, wait: bool) {
        self.clear_next = wait;
        if !wait {
            *self = Self::default();
        }
    }

    fn clear_if_due(&mut self) {
        if self.clear_next {
            self.clear(false);
        }
    }
}

/// About the bytes that a value takes.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum::<usize>() + 16 * values.len(),
        Value::Object(entries) => entries.iter().map(|(key, value)| key.len() + 32 + weight(value)).sum(),
        _ => 8,
    }
}

impl Item {
    fn is_error(&self) -> bool {
        matches!(self, Self::Other(output) if output["output_type"] == "error")
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Stream(stream) => json!({"name": stream.name(), "output_type": "stream", "text": stream.text()}),
            Self::Other(output) => output.clone(),
        }
    }

    fn last_line(&self) -> Option<String> {
        match self {
            Self::Stream(stream) => last_line(stream.end()),
            Self::Other(output) => {
                let said = |key| output.get(key).and_then(Value::as_str);
                if let (Some(name), Some(value)) = (said("ename"), said("evalue")) {
                    return Some(format!("{name}: {value}").chars().take(NEWEST).collect());
                }
                last_line(&source::joined(output.pointer("/data/text~1plain")?))
            }
        }
    }
}

/// The last line that isn't blank, as a terminal shows it that goes on after the last `\r`.
fn last_line(text: &str) -> Option<String> {
    let line = text.rsplit(['\n', '\r']).find(|line| !line.trim().is_empty())?;
    Some(line.chars().take(NEWEST).collect())
}

fn display_id(content: &Value) -> Option<&str> {
    content.pointer("/transient/display_id").and_then(Value::as_str)
}

/// An error that no kernel raised.
pub fn error_output(name: &str, value: &str) -> Value {
    json!({"ename": name, "evalue": value, "output_type": "error", "traceback": [format!("{name}: {value}")]})
}

/// What nbformat takes as an error, whatever a kernel left out.
fn error(content: &Value) -> Value {
    let said = |key| content.get(key).map(text).unwrap_or_default();
    let traceback = content.get("traceback").and_then(Value::as_array);
    let traceback: Vec<Value> = traceback.into_iter().flatten().map(|line| text(line).into()).collect();
    json!({"ename": said("ename"), "evalue": said("evalue"), "output_type": "error", "traceback": traceback})
}

/// Text as it is, anything else as JSON.
fn text(value: &Value) -> String {
    if source::is_text(value) { source::joined(value) } else { value.to_string() }
}

#[cfg(test)]
mod tests;
