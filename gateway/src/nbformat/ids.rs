//! The ids that cells go by where the file stores none.
//!
//! What is remembered is the order of the cells, each with its id and a fingerprint of its type and
//! source. When somebody else changed the file, cells are found again by content: first those
//! in the same order, then those that moved, then those edited where they stood. In doubt a cell
//! gets a new id: one that is not found does no harm, one that names another cell does.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::cell::{CellType, Entry};

/// How long the search for the best alignment may take before a good one has to do.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the cells of one notebook went by when it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellIds {
    known: Vec<Known>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    id: String,
    print: Print,
}

/// What a cell is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Print {
    cell_type: CellType,
    source: u64,
}

impl Print {
    fn of(entry: &Entry) -> Self {
        let mut hasher = DefaultHasher::new();
        entry.source().hash(&mut hasher);
        Self { cell_type: entry.cell_type, source: hasher.finish() }
    }
}

impl CellIds {
    /// Remembers the cells as they are.
    pub(super) fn learn(&mut self, cells: &[Entry]) {
        self.known = cells.iter().map(|entry| Known { id: entry.id.clone(), print: Print::of(entry) }).collect();
    }

    /// Gives cells without a stored id the one they are known by, or else a new one.
    pub(super) fn name(&self, cells: &mut [Entry]) {
        let mut taken: HashSet<String> =
            cells.iter().filter_map(|cell| stored(&cell.value)).map(str::to_owned).collect();
        let unnamed: Vec<usize> = (0..cells.len()).filter(|&index| stored(&cells[index].value).is_none()).collect();
        if unnamed.is_empty() {
            return;
        }
        let known: Vec<&Known> = self.known.iter().filter(|known| !taken.contains(&known.id)).collect();
        let old: Vec<Print> = known.iter().map(|known| known.print).collect();
        let new: Vec<Print> = unnamed.iter().map(|&index| Print::of(&cells[index])).collect();
        let found = aligned(&old, &new);
        for (&index, place) in unnamed.iter().zip(&found) {
            let Some(place) = *place else { continue };
            taken.insert(known[place].id.clone());
            cells[index].id.clone_from(&known[place].id);
        }
        // Ids of cells that are gone are not given again, lest an old id names another cell.
        taken.extend(self.known.iter().map(|known| known.id.clone()));
        for (&index, _) in unnamed.iter().zip(&found).filter(|(_, place)| place.is_none()) {
            cells[index].id = fresh(&mut taken);
        }
    }
}

/// For each new cell the old one that it is.
fn aligned(old: &[Print], new: &[Print]) -> Vec<Option<usize>> {
    let steps = capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(Instant::now() + PATIENCE));
    let mut alignment = Alignment { of_new: vec![None; new.len()], used: vec![false; old.len()] };
    for step in &steps {
        if let DiffOp::Equal { old_index, new_index, len } = *step {
            (0..len).for_each(|offset| alignment.pair(old_index + offset, new_index + offset));
        }
    }
    alignment.pair_moved(old, new);
    for step in &steps {
        if let DiffOp::Replace { .. } = step {
            alignment.pair_edited(step, old, new);
        }
    }
    alignment.of_new
}

struct Alignment {
    of_new: Vec<Option<usize>>,
    used: Vec<bool>,
}

impl Alignment {
    fn pair(&mut self, old: usize, new: usize) {
        self.of_new[new] = Some(old);
        self.used[old] = true;
    }

    /// Cells that stand elsewhere, with the same content.
    fn pair_moved(&mut self, old: &[Print], new: &[Print]) {
        let mut free: HashMap<Print, VecDeque<usize>> = HashMap::new();
        for (place, print) in old.iter().enumerate().filter(|&(place, _)| !self.used[place]) {
            free.entry(*print).or_default().push_back(place);
        }
        for (place, print) in new.iter().enumerate() {
            if self.of_new[place].is_none()
                && let Some(old) = free.get_mut(print).and_then(VecDeque::pop_front)
            {
                self.pair(old, place);
            }
        }
    }

    /// Cells between the same neighbours, as many as before: they were edited in place.
    fn pair_edited(&mut self, step: &DiffOp, old: &[Print], new: &[Print]) {
        let before: Vec<usize> = step.old_range().filter(|&place| !self.used[place]).collect();
        let now: Vec<usize> = step.new_range().filter(|&place| self.of_new[place].is_none()).collect();
        if before.len() != now.len() {
            return;
        }
        for (before, now) in before.into_iter().zip(now) {
            if old[before].cell_type == new[now].cell_type {
                self.pair(before, now);
            }
        }
    }
}

/// The id that a cell's JSON holds.
pub(super) fn stored(cell: &Value) -> Option<&str> {
    cell.get("id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

/// Gives cells whose id is empty a new one.
pub(super) fn name_unnamed(cells: &mut [Entry]) {
    let mut taken = cells.iter().map(|cell| cell.id.clone()).collect();
    for cell in cells.iter_mut().filter(|cell| cell.id.is_empty()) {
        cell.id = fresh(&mut taken);
    }
}

/// A new random id, as short as the ones that Jupyter makes.
pub(super) fn fresh(taken: &mut HashSet<String>) -> String {
    loop {
        let id = format!("{:08x}", RandomState::new().hash_one(taken.len()) >> 32);
        if taken.insert(id.clone()) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests;
