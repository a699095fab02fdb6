use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hints, Tool, paging};
use crate::answer::{Answer, Failure, Shape};
use crate::nbformat::Cell;
use crate::workspace::Caller;

/// A first line longer than this is cut in a brief reading.
const LINE: usize = 120;

/// Read an open notebook's cells with their ids: brief shows first lines, detailed whole sources.
/// Outputs: read_cell.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadNotebook {
    /// Open notebook
    notebook_name: String,
    /// How much of each cell
    #[serde(default = "brief")]
    #[schemars(extend("enum" = ["brief", "detailed"]))]
    response_format: String,
    /// First cell to show
    #[serde(default)]
    #[schemars(range(min = 0), with = "i64")]
    start_index: u64,
    /// Cells to show; 0 = all
    #[serde(default = "page_size")]
    #[schemars(range(min = 0), with = "i64")]
    limit: u64,
}

fn brief() -> String {
    "brief".to_owned()
}

fn page_size() -> u64 {
    20
}

impl Tool for ReadNotebook {
    const NAME: &'static str = "read_notebook";
    const TITLE: &'static str = "Read Notebook";
    const KIND: &'static str = "notebook.read";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::READS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let target = caller.notebook(Some(&self.notebook_name))?;
        let notebook = target.document.read().await?;
        let detailed = self.response_format == "detailed";
        let all: Vec<Cell<'_>> = notebook.cells().collect();
        let shown = paging::of(&all, self.start_index, self.limit);
        let mut text = format!(
            "Notebook '{}' ({}) in sandbox '{}': {} cells.",
            target.open.name,
            target.open.path.as_str(),
            target.open.sandbox,
            all.len()
        );
        for cell in shown {
            write_cell(&mut text, cell, detailed);
        }
        let answer = Answer::message(text)
            .with("cells", shown.iter().map(|cell| entry(cell, detailed)).collect::<Vec<_>>())
            .with("total", all.len())
            .with("start_index", self.start_index)
            .with("notebook", target.tag());
        Ok(match paging::note(shown.len(), self.start_index, all.len()) {
            Some(note) => answer.note(note),
            None => answer,
        })
    }
}

fn write_cell(text: &mut String, cell: &Cell<'_>, detailed: bool) {
    let count = cell.execution_count().map_or(String::new(), |count| format!(" [{count}]"));
    let head = format!("{} id {} {}{count}", cell.index(), cell.id(), cell.cell_type());
    // Writing to a String can't fail.
    let _ = if detailed {
        write!(text, "\n\n{head}:\n{}", cell.source())
    } else {
        write!(text, "\n{head}: {}", cut(&cell.first_line()))
    };
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn entry(cell: &Cell<'_>, detailed: bool) -> Value {
    let mut entry = json!({
        "id": cell.id(),
        "index": cell.index(),
        "type": cell.cell_type().as_str(),
        "execution_count": cell.execution_count(),
    });
    if detailed {
        entry["source"] = cell.source().into();
    } else {
        entry["first_line"] = cell.first_line().into();
    }
    entry
}
