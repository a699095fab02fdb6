//! The catalogue: one file a tool, the file's name is the tool's name.
//!
//! A tool is a struct of its arguments. Its doc comment is the description that a model reads, its
//! fields' docs are the parameters' descriptions. A new tool is one file, its `mod` and its
//! entry here; the tests name the pages that have to tell of it.

#![expect(clippy::doc_markdown, reason = "doc comments here are descriptions that models read")]

mod arguments;
mod entry;
mod schema;

mod clear_cell_output;
mod connect_to_jupyter;
mod delete_cell;
mod edit_cell_source;
mod execute_cell;
mod execute_code;
mod insert_cell;
mod insert_execute_code_cell;
mod launch_sandbox;
mod list_files;
mod list_kernels;
mod list_notebooks;
mod list_sandboxes;
mod move_cell;
mod overwrite_cell_source;
mod read_cell;
mod read_notebook;
mod restart_notebook;
mod terminate_sandbox;
mod unuse_notebook;
mod use_notebook;
mod use_sandbox;

mod cell;
mod defaults;
mod paging;
mod record;
mod time;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub use entry::{Entry, Hints};

use crate::answer::{Answer, Failure, Shape};
use crate::audit::Action;
use crate::workspace::Caller;

/// A tool: its arguments, what it is called, and what it does.
pub trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// The name that clients call.
    const NAME: &'static str;
    /// The title that people see.
    const TITLE: &'static str;
    /// What its answers are called.
    const KIND: &'static str;
    /// The shape of its answers.
    const SHAPE: Shape;
    /// What a client may assume before it calls.
    const HINTS: Hints;
    /// How long a client may keep an answer, in milliseconds.
    const CACHE_MS: Option<u64> = None;
    /// What the audit trail calls it, where that is to know of each call.
    const AUDIT: Option<Action> = None;
    /// Parameters of other servers' same-named tool, accepted when null and not advertised.
    const NULL_ONLY: &'static [&'static str] = &[];

    /// Does it.
    fn call(self, caller: &Caller) -> impl Future<Output = Result<Answer, Failure>> + Send;
}

/// Every tool, by name.
pub static CATALOGUE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        Entry::of::<clear_cell_output::ClearCellOutput>(),
        Entry::of::<connect_to_jupyter::ConnectToJupyter>(),
        Entry::of::<delete_cell::DeleteCell>(),
        Entry::of::<edit_cell_source::EditCellSource>(),
        Entry::of::<execute_cell::ExecuteCell>(),
        Entry::of::<execute_code::ExecuteCode>(),
        Entry::of::<insert_cell::InsertCell>(),
        Entry::of::<insert_execute_code_cell::InsertExecuteCodeCell>(),
        Entry::of::<launch_sandbox::LaunchSandbox>(),
        Entry::of::<list_files::ListFiles>(),
        Entry::of::<list_kernels::ListKernels>(),
        Entry::of::<list_notebooks::ListNotebooks>(),
        Entry::of::<list_sandboxes::ListSandboxes>(),
        Entry::of::<move_cell::MoveCell>(),
        Entry::of::<overwrite_cell_source::OverwriteCellSource>(),
        Entry::of::<read_cell::ReadCell>(),
        Entry::of::<read_notebook::ReadNotebook>(),
        Entry::of::<restart_notebook::RestartNotebook>(),
        Entry::of::<terminate_sandbox::TerminateSandbox>(),
        Entry::of::<unuse_notebook::UnuseNotebook>(),
        Entry::of::<use_notebook::UseNotebook>(),
        Entry::of::<use_sandbox::UseSandbox>(),
    ]
});

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.contract.tool == name)
}
