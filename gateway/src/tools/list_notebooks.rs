use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::workspace::{Caller, OpenNotebook};

const COLUMNS: &[&str] = &["Name", "Path", "Kernel_ID", "Kernel_Status", "Activate", "Sandbox"];

/// List the notebooks you have open, in all sandboxes; ✓ marks the current one.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListNotebooks {}

impl Tool for ListNotebooks {
    const NAME: &'static str = "list_notebooks";
    const TITLE: &'static str = "List Notebooks";
    const KIND: &'static str = "notebooks.list";
    const SHAPE: Shape = Shape::Rows;
    const HINTS: Hints = Hints::READS;
    const CACHE_MS: Option<u64> = Some(30_000);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let current = caller.current_notebook();
        let mut rows = Vec::new();
        for open in caller.open_notebooks() {
            let (kernel, status) = kernel(caller, &open).await;
            let mark = if current.as_deref() == Some(open.name.as_str()) { "✓" } else { "" };
            let path = open.path.as_str().to_owned();
            rows.push(vec![open.name.clone(), path, kernel, status, mark.to_owned(), open.sandbox.clone()]);
        }
        Ok(Answer::rows(COLUMNS, rows, "No notebooks are open; call use_notebook to open one.".to_owned()))
    }
}

/// The notebook's kernel id and its state in the contract's words.
async fn kernel(caller: &Caller, open: &OpenNotebook) -> (String, String) {
    let id = open.kernel_id();
    let shown = id.clone().unwrap_or_else(|| "-".to_owned());
    let Some(sandbox) = caller.fleet().find(&caller.owner, &open.sandbox) else { return (shown, "gone".to_owned()) };
    let Some(id) = id else { return (shown, "none".to_owned()) };
    let status = match sandbox.server().kernel_model(&id).await {
        Ok(Some(model)) => match model.execution_state.as_str() {
            "idle" | "busy" | "dead" => model.execution_state,
            _ => "starting".to_owned(),
        },
        _ => "gone".to_owned(),
    };
    (shown, status)
}
