//! Finding the cell that a caller means, and saying what to do when it isn't there.

use super::error::EditError;
use super::notebook::Notebook;

/// Which cell: its id, or else its index from 0. The id wins when both are given; the index then tells
/// apart cells that have the same id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellRef {
    /// The id that [`super::Cell::id`] tells.
    pub id: Option<String>,
    /// The place in the notebook.
    pub index: Option<i64>,
}

impl Notebook {
    /// The index of the cell that is meant.
    pub fn find(&self, at: &CellRef) -> Result<usize, EditError> {
        match (&at.id, at.index) {
            (Some(id), index) => self.find_id(id, index),
            (None, Some(index)) => self.find_index(index),
            (None, None) => Err(EditError::Invalid(format!(
                "Say which cell: pass its id (read_notebook shows ids) or its index; {}.",
                self.range()
            ))),
        }
    }

    /// Where a new cell goes: -1 is the end.
    pub(super) fn place(&self, index: i64) -> Result<usize, EditError> {
        if index == -1 {
            return Ok(self.len());
        }
        usize::try_from(index).ok().filter(|&index| index <= self.len()).ok_or_else(|| {
            EditError::CellNotFound(format!(
                "A cell can't be inserted at index {index}: {}; pass 0 to {}, or -1 to append.",
                self.range(),
                self.len()
            ))
        })
    }

    fn find_index(&self, index: i64) -> Result<usize, EditError> {
        usize::try_from(index).ok().filter(|&index| index < self.len()).ok_or_else(|| {
            EditError::CellNotFound(format!(
                "There is no cell at index {index}: {}; read_notebook shows them.",
                self.range()
            ))
        })
    }

    fn find_id(&self, id: &str, index: Option<i64>) -> Result<usize, EditError> {
        let places: Vec<usize> = self.cells().filter(|cell| cell.id() == id).map(|cell| cell.index()).collect();
        match places[..] {
            [index] => Ok(index),
            [] => Err(EditError::CellNotFound(self.unknown(id))),
            _ => index.and_then(|index| usize::try_from(index).ok()).filter(|index| places.contains(index)).ok_or_else(
                || {
                    EditError::CellAmbiguous(format!(
                        "{} cells have the id {id:?} (indices {places:?}); pass the index of the one you mean.",
                        places.len()
                    ))
                },
            ),
        }
    }

    fn unknown(&self, id: &str) -> String {
        let hint = match self.nearest(id) {
            Some(near) => format!("did you mean {near:?}? read_notebook shows all ids"),
            None if id.parse::<i64>().is_ok() => "to name a cell by its place pass the index instead".to_owned(),
            None => "read_notebook shows the ids".to_owned(),
        };
        format!("No cell has the id {}: {}; {hint}.", shortened(id), self.range())
    }

    /// The id that is most like this one, when one is close.
    fn nearest(&self, id: &str) -> Option<&str> {
        if id.is_empty() || id.len() > 64 {
            return None;
        }
        let near = |candidate: &&str| strsim::normalized_damerau_levenshtein(id, candidate);
        let best = self.cells().map(|cell| cell.id()).max_by(|one, other| near(one).total_cmp(&near(other)))?;
        (near(&best) >= 0.6).then_some(best)
    }

    /// The valid indices, in words.
    fn range(&self) -> String {
        match self.len() {
            0 => "the notebook has no cells".to_owned(),
            1 => "the notebook has one cell, cell 0".to_owned(),
            count => format!("the notebook has cells 0 to {}", count - 1),
        }
    }
}

/// An id as it was given, cut when it is a text rather than an id.
fn shortened(id: &str) -> String {
    match id.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}...", &id[..end]),
        None => format!("{id:?}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn notebook(ids: &[&str]) -> Notebook {
        let cells: Vec<_> =
            ids.iter().map(|id| json!({"cell_type": "raw", "id": id, "metadata": {}, "source": ""})).collect();
        Notebook::from_value(json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})).unwrap()
    }

    fn by_id(id: &str) -> CellRef {
        CellRef { id: Some(id.to_owned()), index: None }
    }

    fn by_index(index: i64) -> CellRef {
        CellRef { id: None, index: Some(index) }
    }

    #[test]
    fn the_id_wins_over_the_index() {
        let both = CellRef { id: Some("b".to_owned()), index: Some(0) };
        assert_eq!(notebook(&["a", "b"]).find(&both), Ok(1));
    }

    #[test]
    fn an_index_out_of_range_is_answered_with_the_range() {
        let eight = notebook(&["a", "b", "c", "d", "e", "f", "g", "h"]);
        assert_eq!(eight.find(&by_index(7)), Ok(7));
        for index in [8, -1, i64::MIN, i64::MAX] {
            let error = eight.find(&by_index(index)).unwrap_err();
            assert!(
                matches!(error, EditError::CellNotFound(_)) && error.to_string().contains("cells 0 to 7"),
                "{error}"
            );
        }
        assert!(notebook(&[]).find(&by_index(0)).unwrap_err().to_string().contains("no cells"));
    }

    #[test]
    fn an_unknown_id_is_answered_with_the_nearest_and_the_way_to_ids() {
        let cells = notebook(&["id-A", "summary", "3fa9c1d2"]);
        let message = |id: &str| cells.find(&by_id(id)).unwrap_err().to_string();
        assert!(message("sumary").contains("did you mean \"summary\""));
        assert!(message("nope").contains("read_notebook shows the ids") && !message("nope").contains("mean"));
        assert!(message("2").contains("pass the index"));
        assert!(message(&"print('x')\n".repeat(50)).len() < 200);
    }

    #[test]
    fn an_id_that_two_cells_have_is_ambiguous() {
        let error = notebook(&["a", "b", "a"]).find(&by_id("a")).unwrap_err();
        assert!(matches!(&error, EditError::CellAmbiguous(message) if message.contains("[0, 2]")), "{error}");
    }

    #[test]
    fn the_index_tells_cells_of_one_id_apart_and_nothing_else() {
        let cells = notebook(&["a", "b", "a"]);
        let at = |id: &str, index| cells.find(&CellRef { id: Some(id.to_owned()), index: Some(index) });
        assert_eq!(at("a", 2).unwrap(), 2);
        assert_eq!(at("b", 2).unwrap(), 1);
        assert!(at("a", 1).is_err());
    }

    #[test]
    fn neither_id_nor_index_is_refused() {
        assert!(matches!(notebook(&["a"]).find(&CellRef::default()), Err(EditError::Invalid(_))));
    }
}
