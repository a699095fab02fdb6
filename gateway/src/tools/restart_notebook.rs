use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::workspace::Caller;

/// Restart the kernel of an open notebook: its variables are lost, files and outputs stay. Ends
/// code that ignores an interrupt.
#[derive(Deserialize, JsonSchema)]
pub(super) struct RestartNotebook {
    /// Open notebook
    notebook_name: String,
}

impl Tool for RestartNotebook {
    const NAME: &'static str = "restart_notebook";
    const TITLE: &'static str = "Restart Notebook";
    const KIND: &'static str = "notebook.restart";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::CHANGES;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let target = caller.notebook(Some(&self.notebook_name))?;
        let restarted = caller.restart_kernel(&target).await?;
        let text = if restarted {
            format!(
                "The kernel of notebook '{}' was restarted: its variables are lost, run the cells you need again.",
                target.open.name
            )
        } else {
            format!("Notebook '{}' had no kernel; a new one is running now.", target.open.name)
        };
        let kernel = target.open.kernel_id();
        Ok(Answer::message(text).with("notebook", target.tag()).with("kernel_id", kernel))
    }
}
