use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, record};
use crate::answer::{Answer, Failure, Shape};
use crate::workspace::Caller;

/// List your sandboxes: name, status and why, active or not, URL, when it was used, when it ends.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListSandboxes {}

impl Tool for ListSandboxes {
    const NAME: &'static str = "list_sandboxes";
    const TITLE: &'static str = "List Sandboxes";
    const KIND: &'static str = "sandboxes.list";
    const SHAPE: Shape = Shape::List;
    const HINTS: Hints = Hints::READS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let records = caller.fleet().list(&caller.owner);
        let notebooks = caller.notebooks_by_sandbox();
        let records = records.iter().map(|sandbox| record::of(caller, sandbox, &notebooks)).collect();
        Ok(Answer::list(records, "You have no sandboxes; call launch_sandbox to start one."))
    }
}
