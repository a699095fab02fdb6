//! Servers that run already: attached by address, never ended.

use jiff::Timestamp;

use super::super::{FleetError, LaunchRequest, ProviderError, Status};
use super::launch::Asked;
use super::{ATTACHED, Fleet, Launched, Sandbox};
use crate::jupyter::{JupyterError, Server};

impl Fleet {
    /// Attaches the server that the request names, if it answers to the token.
    pub(super) async fn attach(&self, asked: &Asked, digest: String) -> Result<Launched, FleetError> {
        let request = &asked.request;
        if let Some(wish) = request.unkept(&["server_url", "token"]) {
            return Err(ProviderError::Unsupported { variant: ATTACHED, wish }.into());
        }
        let Some(url) = &request.server_url else {
            let message = "variant jupyter-server needs server_url, and token if the server asks for one".to_owned();
            return Err(JupyterError::InvalidUrl(message).into());
        };
        let server = Server::new(url, request.token.clone())?;
        server.status().await?;
        let mut record = self.intend(asked, digest, ATTACHED)?;
        record.status = Status::Running;
        record.url = Some(server.base_url().to_string());
        record.last_activity_at = Timestamp::now();
        let sandbox = self.admit(Sandbox::new(record, server, None, None))?;
        Ok(Launched { sandbox, existing: false })
    }
}

/// The request with one form of its URL, and with the token that stood in it as its token: the same
/// server asked for in another way is the same sandbox.
pub(super) fn in_normal_form(request: LaunchRequest) -> Result<LaunchRequest, FleetError> {
    let Some(url) = &request.server_url else { return Ok(request) };
    let server = Server::new(url, request.token.clone())?;
    Ok(LaunchRequest { server_url: Some(server.base_url().to_string()), token: server.token().cloned(), ..request })
}
