use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::audit::Action;
use crate::workspace::Caller;

/// Make a running sandbox the active one, which calls go to that name none. null clears it.
#[derive(Deserialize, JsonSchema)]
pub(super) struct UseSandbox {
    /// Sandbox's name
    #[serde(default)]
    sandbox_name: Option<String>,
}

impl Tool for UseSandbox {
    const NAME: &'static str = "use_sandbox";
    const TITLE: &'static str = "Use Sandbox";
    const KIND: &'static str = "sandbox.use";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;
    const AUDIT: Option<Action> = Some(Action::Use);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let Some(name) = self.sandbox_name.filter(|name| !name.is_empty()) else {
            caller.activate(None);
            return Ok(Answer::message("No sandbox is active now.".to_owned()).with("sandbox", Value::Null));
        };
        let sandbox = caller.named_sandbox(&name)?;
        caller.activate(Some(&sandbox));
        let text = format!("Sandbox '{}' is the active one now.", sandbox.name());
        Ok(Answer::message(text).with("sandbox", json!({"name": sandbox.name(), "id": sandbox.id().as_str()})))
    }
}
