//! Servers that run already: attached by address, never ended.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::SecretString;

use super::super::{FleetError, LaunchRequest, ProviderError, Record, Status};
use super::intent::{Asked, Intent};
use super::takeover::AGAIN;
use super::{ATTACHED, Fleet, Launched, Sandbox};
use crate::jupyter::{JupyterError, Server};

/// What became of a server that an earlier gateway had attached.
pub(super) enum Reattached {
    Here,
    Not(String),
}

impl Fleet {
    /// Attaches the server that the request names, if it may be attached and answers to the token.
    pub(super) async fn attach(&self, asked: &Asked) -> Result<Launched, FleetError> {
        let request = &asked.request;
        if let Some(wish) = request.unkept(&["server_url", "token"]) {
            return Err(ProviderError::Unsupported { variant: ATTACHED, wish }.into());
        }
        let Some(url) = &request.server_url else {
            let message = "variant jupyter-server needs server_url, and token if the server asks for one".to_owned();
            return Err(JupyterError::InvalidUrl(message).into());
        };
        let server = Server::new(url, request.token.clone())?;
        let pinned = if request.operators { None } else { self.config.attachable.check(server.base_url()).await? };
        let server = Server::at(url, request.token.clone(), pinned.clone())?;
        server.status().await?;
        let mut record = self.intend(asked, &Intent { variant: ATTACHED, secret: request.token.as_ref() })?;
        record.status = Status::Running;
        record.url = Some(server.base_url().to_string());
        record.backend = pinned.map(|addresses| serde_json::to_string(&addresses).unwrap_or_default());
        record.last_activity_at = Timestamp::now();
        let sandbox = self.admit(Sandbox::new(record, server, None))?;
        Ok(Launched { sandbox, existing: false, brought_back: false })
    }

    /// Goes on with a server that an earlier gateway had attached; it is asked nothing.
    pub(super) fn reattach(&self, record: &Record) -> Reattached {
        let attached_again = self.live().values().any(|sandbox| {
            let other = sandbox.record();
            other.variant == ATTACHED && other.owner == record.owner && other.name == record.name
        });
        if attached_again {
            return Reattached::Not(AGAIN.to_owned());
        }
        let opened = match self.opened_secret(record) {
            Ok(token) => record.url.as_deref().map(|url| Server::at(url, token, pinned(record))),
            Err(reason) => return Reattached::Not(reason),
        };
        let Some(Ok(server)) = opened else { return Reattached::Not("its address is not known".to_owned()) };
        self.live().insert(record.id.clone(), Arc::new(Sandbox::new(record.clone(), server, None)));
        Reattached::Here
    }

    fn opened_secret(&self, record: &Record) -> Result<Option<SecretString>, String> {
        let sealed = self.records.secret(&record.id).map_err(|error| error.to_string())?;
        let Some(sealed) = sealed else { return Ok(None) };
        let opened = self.keys.key(&record.key_id).and_then(|key| key.open(record.id.as_str(), &sealed));
        opened.map(Some).ok_or_else(|| "its token can't be read any more: the master key was changed".to_owned())
    }
}

fn pinned(record: &Record) -> Option<Vec<IpAddr>> {
    serde_json::from_str(record.backend.as_deref()?).ok()
}

/// The request with one form of its URL, and with the token that stood in it as its token: the same
/// server asked for in another way is the same sandbox.
pub(super) fn in_normal_form(request: LaunchRequest) -> Result<LaunchRequest, FleetError> {
    let Some(url) = &request.server_url else { return Ok(request) };
    let server = Server::new(url, request.token.clone())?;
    Ok(LaunchRequest { server_url: Some(server.base_url().to_string()), token: server.token().cloned(), ..request })
}
