use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::sandbox::Terminated;
use crate::workspace::Caller;

/// End a sandbox and everything that runs in it. Its files are kept: launching the same name
/// brings them back. An attached server is only detached.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TerminateSandbox {
    /// Sandbox's name or id
    sandbox_name: String,
}

impl Tool for TerminateSandbox {
    const NAME: &'static str = "terminate_sandbox";
    const TITLE: &'static str = "Terminate Sandbox";
    const KIND: &'static str = "sandbox.terminate";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let terminated = caller.terminate(&self.sandbox_name).await?;
        let record = &terminated.record;
        let sandbox = json!({"name": record.name, "id": record.id.as_str(), "status": record.status.as_str()});
        Ok(Answer::message(text(&terminated)).with("sandbox", sandbox).with("files", json!(terminated.files)))
    }
}

fn text(terminated: &Terminated) -> String {
    let name = &terminated.record.name;
    if terminated.detached {
        return format!("Detached from '{name}': the server itself goes on running, with its files.");
    }
    let files = match &terminated.files {
        Some(files) => format!("Its files are kept in {files}; launch '{name}' again to go on with them."),
        None => "No files are kept.".to_owned(),
    };
    if terminated.already {
        return format!("Sandbox '{name}' had ended before. {files}");
    }
    format!("Sandbox '{name}' is terminated and nothing of it runs any more. {files}")
}
