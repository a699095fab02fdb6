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

/// The output reducer of one run.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    items: Vec<Item>,
    /// Where the outputs of each `display_id` are.
    displays: HashMap<String, Vec<usize>>,
    /// `clear_output(wait=True)`: the next output replaces all.
    clear_next: bool,
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
            "error" => self.push(Item::Other(error(content))),
            "clear_output" => self.clear(content.get("wait").and_then(Value::as_bool).unwrap_or(false)),
            "update_display_data" => return self.update(content),
            _ => {}
        }
        None
    }

    /// The outputs as they are to be stored.
    pub fn to_json(&self) -> Vec<Value> {
        self.items.iter().map(Item::to_json).collect()
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

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn stream(&mut self, content: &Value) {
        let name = content.get("name").and_then(Value::as_str).unwrap_or("stdout");
        let Some(text) = content.get("text").map(text).filter(|text| !text.is_empty()) else { return };
        self.clear_if_due();
        match self.items.last_mut() {
            Some(Item::Stream(stream)) if stream.name() == name => stream.push(&text),
            _ => self.items.push(Item::Stream(Stream::new(name, &text))),
        }
    }

    fn display(&mut self, content: &Value, mut output: Value) {
        if let Value::Object(output) = &mut output {
            output.insert("data".to_owned(), bundle(content.get("data")));
            output.insert("metadata".to_owned(), object(content.get("metadata")));
            output.sort_keys();
        }
        self.push(Item::Other(output));
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

    fn push(&mut self, item: Item) {
        self.clear_if_due();
        self.items.push(item);
    }

    fn clear(&mut self, wait: bool) {
        self.clear_next = wait;
        if !wait {
            self.items.clear();
            self.displays.clear();
        }
    }

    fn clear_if_due(&mut self) {
        if self.clear_next {
            self.clear(false);
        }
    }
}

impl Item {
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
