use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::audit::Action;
use crate::workspace::{Caller, Options, Where};

/// Run code without saving it: in the kernel of kernel_id, else of notebook_name, else of the
/// current notebook if it is in the active sandbox, else in a scratch kernel of the sandbox that
/// keeps its variables between calls. `%pip` and `!` work.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ExecuteCode {
    /// Code to run
    code: String,
    /// Seconds, from when the code starts; 0 = the default (120)
    #[serde(default = "thirty")]
    #[schemars(range(min = 0), with = "i64")]
    timeout: u64,
    /// A running kernel's id
    #[serde(default)]
    kernel_id: Option<String>,
    /// Seconds between progress reports
    #[serde(default = "super::defaults::progress_interval")]
    #[schemars(range(min = 1), with = "i64")]
    progress_interval: u64,
    /// Use this open notebook's kernel
    #[serde(default)]
    notebook_name: Option<String>,
    /// Use this sandbox's scratch kernel
    #[serde(default)]
    sandbox_name: Option<String>,
}

fn thirty() -> u64 {
    30
}

impl Tool for ExecuteCode {
    const NAME: &'static str = "execute_code";
    const TITLE: &'static str = "Execute Code";
    const KIND: &'static str = "code.execute";
    const SHAPE: Shape = Shape::Outputs;
    const HINTS: Hints = Hints::RUNS;
    const AUDIT: Option<Action> = Some(Action::Execute);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let options = Options { timeout: self.timeout, stream: true, progress_interval: self.progress_interval };
        let place = Where { kernel: self.kernel_id, notebook: self.notebook_name, sandbox: self.sandbox_name };
        caller.run_code(self.code, &place, options).await
    }
}
