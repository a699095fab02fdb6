//! Running kernels, through the REST API.

use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rest::{Call, REQUEST_LIMIT, Rest, is_id, one_line};
use super::{JupyterError, Server};

/// A running kernel as the server tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelModel {
    /// Its id, a UUID.
    pub id: String,
    /// The name of its kernelspec.
    #[serde(default)]
    pub name: String,
    /// When it last did something, in RFC 3339.
    #[serde(default)]
    pub last_activity: String,
    /// `starting`, `idle`, `busy`, `restarting` or `dead`.
    #[serde(default)]
    pub execution_state: String,
    /// How many sockets are open to it.
    #[serde(default)]
    pub connections: u64,
}

impl Server {
    /// All running kernels.
    pub async fn kernels(&self) -> Result<Vec<KernelModel>, JupyterError> {
        self.rest.json(self.rest.call(Method::GET, ["kernels"])).await
    }

    /// One running kernel; `None` when it isn't there.
    pub async fn kernel_model(&self, id: &str) -> Result<Option<KernelModel>, JupyterError> {
        model(&self.rest, id, REQUEST_LIMIT).await
    }

    /// Starts the kernel of that kernelspec.
    pub async fn start_kernel(&self, name: &str) -> Result<KernelModel, JupyterError> {
        let call = self.rest.call(Method::POST, ["kernels"]).body(json!({ "name": name }));
        match self.rest.json(call).await {
            Ok(model) => Ok(model),
            Err(error) => Err(self.why_not_started(name, error).await),
        }
    }

    /// Ends a kernel.
    pub async fn shutdown_kernel(&self, id: &str) -> Result<(), JupyterError> {
        self.rest.done(on_kernel(&self.rest, Method::DELETE, id, None)?).await
    }

    /// Jupyter's refusal doesn't tell that there is no such kernelspec.
    pub(super) async fn why_not_started(&self, name: &str, error: JupyterError) -> JupyterError {
        let refused = matches!(error, JupyterError::Refused { .. } | JupyterError::NotFound { .. });
        match self.kernelspecs().await {
            Ok(installed) if refused && !installed.specs.contains_key(name) => {
                JupyterError::NotFound { what: format!("kernelspec '{}'", one_line(name)) }
            }
            _ => error,
        }
    }
}

/// The kernel as REST tells it, asked within `limit`.
pub(super) async fn model(rest: &Rest, id: &str, limit: Duration) -> Result<Option<KernelModel>, JupyterError> {
    let call = match on_kernel(rest, Method::GET, id, None) {
        Ok(call) => call.query("no_track_activity", "1").limit(limit),
        Err(_) => return Ok(None),
    };
    match rest.json(call).await {
        Ok(model) => Ok(Some(model)),
        Err(JupyterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn interrupt(rest: &Rest, id: &str) -> Result<(), JupyterError> {
    rest.done(on_kernel(rest, Method::POST, id, Some("interrupt"))?.body(json!({}))).await
}

pub(super) async fn restart(rest: &Rest, id: &str) -> Result<(), JupyterError> {
    let call = on_kernel(rest, Method::POST, id, Some("restart"))?.limit(Duration::from_secs(90));
    match rest.json::<Value>(call.body(json!({}))).await {
        // Jupyter fails over a kernel that isn't there.
        Err(JupyterError::Refused { .. }) if model(rest, id, REQUEST_LIMIT).await == Ok(None) => Err(missing(id)),
        restarted => restarted.map(drop),
    }
}

fn on_kernel(rest: &Rest, method: Method, id: &str, action: Option<&str>) -> Result<Call, JupyterError> {
    if !is_id(id) {
        return Err(missing(id));
    }
    Ok(rest.call(method, ["kernels", id].into_iter().chain(action)).subject(subject(id)))
}

fn missing(id: &str) -> JupyterError {
    JupyterError::NotFound { what: subject(id) }
}

fn subject(id: &str) -> String {
    format!("kernel '{}'", one_line(id))
}
