//! Sessions: which notebook runs on which kernel.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rest::{is_id, one_line};
use super::{ContentsPath, JupyterError, KernelModel, Server};

/// A notebook's tie to its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionModel {
    /// The session's id, a UUID.
    pub id: String,
    /// The notebook's path from the server's root.
    #[serde(default)]
    pub path: String,
    /// The kernel it runs on.
    pub kernel: KernelModel,
}

/// Which kernel a new session gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    /// A new one of this kernelspec.
    Name(String),
    /// One that runs.
    Id(String),
}

impl Server {
    /// All sessions.
    pub async fn sessions(&self) -> Result<Vec<SessionModel>, JupyterError> {
        self.rest.json(self.rest.call(Method::GET, ["sessions"])).await
    }

    /// A session for a notebook; the one that is there when there is one.
    pub async fn start_session(&self, path: &ContentsPath, kernel: KernelChoice) -> Result<SessionModel, JupyterError> {
        match kernel {
            KernelChoice::Name(name) => match self.post_session(path, &json!({ "name": name })).await {
                Ok(session) => Ok(session),
                Err(error) => Err(self.why_not_started(&name, error).await),
            },
            // Jupyter would start another kernel under an id that it doesn't know.
            KernelChoice::Id(id) => match self.kernel_model(&id).await? {
                Some(_) => self.post_session(path, &json!({ "id": id })).await,
                None => Err(JupyterError::NotFound { what: format!("kernel '{}'", one_line(&id)) }),
            },
        }
    }

    /// Ends a session, and its kernel with it.
    pub async fn delete_session(&self, id: &str) -> Result<(), JupyterError> {
        let what = format!("session '{}'", one_line(id));
        if !is_id(id) {
            return Err(JupyterError::NotFound { what });
        }
        self.rest.done(self.rest.call(Method::DELETE, ["sessions", id]).subject(what)).await
    }

    async fn post_session(&self, path: &ContentsPath, kernel: &Value) -> Result<SessionModel, JupyterError> {
        let body = json!({ "path": path.as_str(), "name": path.name(), "type": "notebook", "kernel": kernel });
        self.rest.json(self.rest.call(Method::POST, ["sessions"]).body(body)).await
    }
}
