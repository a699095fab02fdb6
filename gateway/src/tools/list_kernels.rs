use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, time};
use crate::answer::{Answer, Failure, Shape};
use crate::jupyter::{KernelModel, Kernelspecs};
use crate::workspace::{Caller, jupyter_failure};

const COLUMNS: &[&str] =
    &["ID", "Name", "Display_Name", "Language", "State", "Connections", "Last_Activity", "Environment"];

/// List the kernels that run in the sandbox. Bind one with use_notebook's kernel_id, or run code
/// in it with execute_code's.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListKernels {
    /// Sandbox; null = the active one
    #[serde(default)]
    sandbox_name: Option<String>,
}

impl Tool for ListKernels {
    const NAME: &'static str = "list_kernels";
    const TITLE: &'static str = "List Kernels";
    const KIND: &'static str = "kernels.list";
    const SHAPE: Shape = Shape::Rows;
    const HINTS: Hints = Hints::READS;
    const CACHE_MS: Option<u64> = Some(10_000);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let sandbox = caller.sandbox(self.sandbox_name.as_deref()).await?;
        let failure = |error| jupyter_failure(&sandbox, &error);
        let (kernels, specs) =
            tokio::try_join!(sandbox.server().kernels(), sandbox.server().kernelspecs()).map_err(failure)?;
        let environment = sandbox.record().environment.unwrap_or_else(|| sandbox.name().to_owned());
        let rows = kernels.iter().map(|kernel| row(kernel, &specs, &environment)).collect();
        let empty = format!("No kernel runs in sandbox '{}'; one starts with the first run.", sandbox.name());
        Ok(Answer::rows(COLUMNS, rows, empty).with("sandbox", sandbox.name()))
    }
}

fn row(kernel: &KernelModel, specs: &Kernelspecs, environment: &str) -> Vec<String> {
    let spec = specs.specs.get(&kernel.name);
    vec![
        kernel.id.clone(),
        kernel.name.clone(),
        spec.map_or(String::new(), |spec| spec.display_name.clone()),
        spec.map_or(String::new(), |spec| spec.language.clone()),
        kernel.execution_state.clone(),
        kernel.connections.to_string(),
        time::shown(&kernel.last_activity),
        environment.to_owned(),
    ]
}
