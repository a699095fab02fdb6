use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool};
use crate::answer::{Answer, Failure, Shape};
use crate::audit::Action;
use crate::workspace::{Caller, Opening};

/// Open a notebook (mode connect) or make a new, empty one (mode create) and make it the current
/// one. From then on it goes by notebook_name.
#[derive(Deserialize, JsonSchema)]
pub(super) struct UseNotebook {
    /// Name to call it by
    notebook_name: String,
    /// Path from the sandbox's root, ending in .ipynb
    notebook_path: String,
    /// Open or make
    #[serde(default = "connect")]
    #[schemars(extend("enum" = ["connect", "create"]))]
    mode: String,
    /// A running kernel to bind, or `NEW`; null = its own, started with the first run
    #[serde(default)]
    kernel_id: Option<String>,
    /// Sandbox; null = the active one
    #[serde(default)]
    sandbox_name: Option<String>,
}

fn connect() -> String {
    "connect".to_owned()
}

impl Tool for UseNotebook {
    const NAME: &'static str = "use_notebook";
    const TITLE: &'static str = "Use Notebook";
    const KIND: &'static str = "notebook.use";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;
    const AUDIT: Option<Action> = Some(Action::Use);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let opening = Opening {
            name: &self.notebook_name,
            path: &self.notebook_path,
            create: self.mode == "create",
            kernel: self.kernel_id.as_deref(),
            sandbox: self.sandbox_name.as_deref(),
        };
        let opened = caller.use_notebook(&opening).await?;
        let target = &opened.target;
        let cells = target.document.read().await?.len();
        let done = match (opened.already, opening.create) {
            (true, _) => "is open already",
            (false, true) => "was created",
            (false, false) => "is open",
        };
        let kernel = target.open.kernel_id();
        let runs =
            kernel.as_ref().map_or("a kernel starts with its first run".to_owned(), |id| format!("its kernel is {id}"));
        let text = format!(
            "Notebook '{}' ({} in sandbox '{}') {done} and is the current one: {cells} cells; {runs}.",
            target.open.name,
            target.open.path.as_str(),
            target.open.sandbox
        );
        Ok(Answer::message(text).with("notebook", target.tag()).with("total", cells).with("kernel_id", kernel))
    }
}
