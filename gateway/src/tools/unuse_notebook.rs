use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::workspace::Caller;

/// Close a notebook. The file stays; its kernel ends if Cellgate started it and nobody else uses
/// it.
#[derive(Deserialize, JsonSchema)]
pub(super) struct UnuseNotebook {
    /// Open notebook
    notebook_name: String,
}

impl Tool for UnuseNotebook {
    const NAME: &'static str = "unuse_notebook";
    const TITLE: &'static str = "Unuse Notebook";
    const KIND: &'static str = "notebook.unuse";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let closed = caller.unuse_notebook(&self.notebook_name).await?;
        let mut text = if closed.was_open {
            format!("Notebook '{}' is closed; its file is kept.", self.notebook_name)
        } else {
            format!("No notebook '{}' was open.", self.notebook_name)
        };
        if closed.kernel_stopped {
            text.push_str(" Its kernel was shut down.");
        }
        match (closed.still_open.as_slice(), caller.current_notebook()) {
            ([], _) => text.push_str(" No notebook is open now."),
            (open, Some(current)) => text = format!("{text} Open: {}; current: {current}.", open.join(", ")),
            (open, None) => {
                text += " Still open: ";
                text += &open.join(", ");
                text += "; none is current, so pass notebook_name or call use_notebook.";
            }
        }
        Ok(Answer::message(text).with("open", closed.still_open))
    }
}
