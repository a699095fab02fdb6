//! The notebook document as data: cells, outputs and pure edits; no I/O.
//!
//! A [`Notebook`] keeps the file's JSON as it was read. An [`Edit`] is resolved against it into
//! [`Operation`]s, the smallest changes that make it, and applying them touches nothing else.

mod cell;
mod diff;
mod edit;
mod error;
mod find;
mod ids;
mod notebook;
mod operation;
mod outputs;
mod replace;
mod source;

pub use cell::{Cell, CellType};
pub use edit::{Edit, Outcome, Resolved, Touched};
pub use error::{EditError, NotebookError};
pub use find::CellRef;
pub use ids::CellIds;
pub use notebook::{Kernelspec, Notebook};
pub use operation::Operation;
pub use outputs::{DisplayUpdate, Outputs, error_output};
