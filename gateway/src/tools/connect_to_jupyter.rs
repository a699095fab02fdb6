use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use super::{Hints, Tool};
use crate::answer::{Answer, Code, Failure, Shape};
use crate::jupyter::Server;
use crate::sandbox::{ATTACHED, LaunchRequest};
use crate::workspace::Caller;

/// Attach a Jupyter server that already runs and make it the active sandbox, under the name
/// `host:port`. Terminating it only detaches it.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ConnectToJupyter {
    /// http(s) URL, with its path prefix if it has one
    jupyter_url: String,
    /// Its token
    #[serde(default)]
    jupyter_token: Option<String>,
    /// Only `jupyter`
    #[serde(default = "jupyter")]
    document_provider: String,
}

fn jupyter() -> String {
    "jupyter".to_owned()
}

impl Tool for ConnectToJupyter {
    const NAME: &'static str = "connect_to_jupyter";
    const TITLE: &'static str = "Connect to Jupyter Server";
    const KIND: &'static str = "jupyter.connect";
    const SHAPE: Shape = Shape::Message;
    const HINTS: Hints = Hints::SETS;

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        if self.document_provider != "jupyter" {
            let message = format!(
                "document_provider '{}' is not known here: leave it out, or pass \"jupyter\".",
                self.document_provider
            );
            return Err(Failure::new(Code::ArgumentsInvalid, message));
        }
        let token = self.jupyter_token.map(SecretString::from);
        let server = Server::new(&self.jupyter_url, token.clone())
            .map_err(|error| Failure::new(Code::ArgumentsInvalid, error.to_string()))?;
        let name = server.name();
        let request = LaunchRequest {
            name: name.clone(),
            variant: Some(ATTACHED.to_owned()),
            server_url: Some(self.jupyter_url),
            token,
            ..LaunchRequest::default()
        };
        let launched = caller.launch(request).await?;
        caller.activate(Some(&launched.sandbox));
        let text = format!(
            "Connected: the Jupyter server at {} is the active sandbox, named '{name}'. Next: list_files, use_notebook or execute_code.",
            launched.sandbox.server().base_url()
        );
        Ok(Answer::message(text).with("sandbox", json!({"name": name, "id": launched.sandbox.id().as_str()})))
    }
}
