//! The document: a notebook's JSON as it was read, whose cells all go by an id.
//!
//! From nbformat 4.5 on the ids are stored in the file, those that were missing from the next save
//! on. An older notebook keeps its version and holds no id at all: its ids are in [`CellIds`] only.

use serde_json::{Map, Value, json};

use super::cell::{Cell, Entry, integer};
use super::error::NotebookError;
use super::ids::{self, CellIds};

/// A notebook of nbformat 4 that loses nothing of the file it came from.
#[derive(Clone, Debug)]
pub struct Notebook {
    /// The document, with null in the place of its cells.
    document: Map<String, Value>,
    pub(super) cells: Vec<Entry>,
}

/// A kernel that a notebook can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernelspec {
    /// What Jupyter knows it by.
    pub name: String,
    /// What people read.
    pub display_name: String,
    /// The language of its code.
    pub language: String,
}

impl Notebook {
    /// A new notebook without cells, for that kernel.
    pub fn new(kernelspec: &Kernelspec) -> Self {
        let document = json!({
            "cells": null,
            "metadata": {
                "kernelspec": {
                    "display_name": kernelspec.display_name,
                    "language": kernelspec.language,
                    "name": kernelspec.name,
                },
                "language_info": {"name": kernelspec.language},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        });
        let document = if let Value::Object(document) = document { document } else { Map::new() };
        Self { document, cells: Vec::new() }
    }

    /// Reads the text of a notebook file.
    pub fn parse(text: &str) -> Result<Self, NotebookError> {
        if text.trim().is_empty() {
            return Err(NotebookError::Empty);
        }
        let value = serde_json::from_str(text).map_err(|error| NotebookError::NotJson(error.to_string()))?;
        Self::from_value(value)
    }

    /// Takes a document over; ids that it stores are the ids of its cells.
    pub fn from_value(value: Value) -> Result<Self, NotebookError> {
        let wrong = |what: &str| NotebookError::NotANotebook(what.to_owned());
        let Value::Object(mut document) = value else { return Err(wrong("it holds no JSON object")) };
        match version(document.get("nbformat")) {
            None => return Err(wrong("it names no `nbformat` version")),
            Some(old @ 0..4) => return Err(NotebookError::Old(old)),
            Some(4) => {}
            Some(new) => return Err(NotebookError::New(new)),
        }
        if document.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
            return Err(wrong("its `metadata` is no object"));
        }
        let cells = document.get_mut("cells").map(Value::take);
        let Some(Value::Array(cells)) = cells else { return Err(wrong("it has no list of `cells`")) };
        let cells = cells.into_iter().enumerate().map(|(index, cell)| Entry::read(index, cell));
        let mut cells: Vec<Entry> = cells.collect::<Result<_, _>>()?;
        ids::name_unnamed(&mut cells);
        Ok(Self { document, cells })
    }

    /// Takes over what Jupyter converted from an older format. It makes up other ids on every
    /// conversion, so they are dropped: [`Self::identify`] gives ids that stay.
    pub fn from_conversion(mut value: Value) -> Result<Self, NotebookError> {
        for cell in value.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(cell) = cell {
                cell.shift_remove("id");
            }
        }
        Self::from_value(value)
    }

    /// The document to save: every cell with its id, or none with any before nbformat 4.5.
    pub fn to_value(&self) -> Value {
        let stores_ids = self.stores_ids();
        let cells = self.cells.iter().map(|entry| saved(entry, stores_ids)).collect();
        let mut document = self.document.clone();
        document.insert("cells".to_owned(), cells);
        document.into()
    }

    /// Gives the cells that store no id the ids that they had when `known` was last told.
    pub fn identify(&mut self, known: &mut CellIds) {
        known.name(&mut self.cells);
        self.remember(known);
    }

    /// Tells `known` what the cells go by now, so that the next read finds them again.
    pub fn remember(&self, known: &mut CellIds) {
        known.learn(&self.cells);
    }

    /// Whether the file has the cells' ids: from nbformat 4.5 on.
    pub fn stores_ids(&self) -> bool {
        self.version() >= (4, 5)
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is no cell.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The cell at that index.
    pub fn cell(&self, index: usize) -> Option<Cell<'_>> {
        self.cells.get(index).map(|entry| Cell::new(index, entry))
    }

    /// All cells in order.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        self.cells.iter().enumerate().map(|(index, entry)| Cell::new(index, entry))
    }

    /// The name of the kernel that the notebook asks for.
    pub fn kernelspec_name(&self) -> Option<&str> {
        self.metadata("/kernelspec/name")
    }

    /// The language of its code cells.
    pub fn language(&self) -> Option<&str> {
        self.metadata("/language_info/name").or_else(|| self.metadata("/kernelspec/language"))
    }

    /// The version of nbformat: major and minor.
    pub fn version(&self) -> (u64, u64) {
        let number = |key| version(self.document.get(key)).unwrap_or(0);
        (number("nbformat"), number("nbformat_minor"))
    }

    fn metadata(&self, pointer: &str) -> Option<&str> {
        self.document.get("metadata")?.pointer(pointer)?.as_str()
    }
}

/// A cell as it is to be saved.
fn saved(entry: &Entry, stores_ids: bool) -> Value {
    let mut value = entry.value.clone();
    if let Value::Object(cell) = &mut value {
        if !stores_ids {
            cell.shift_remove("id");
        } else if ids::stored(&entry.value).is_none() {
            cell.insert("id".to_owned(), entry.id.clone().into());
        }
    }
    value
}

fn version(value: Option<&Value>) -> Option<u64> {
    value.and_then(integer).and_then(|number| u64::try_from(number).ok())
}

#[cfg(test)]
mod tests;
