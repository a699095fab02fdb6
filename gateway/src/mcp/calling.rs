//! Who is calling, from what a request carries, and how it hears of progress.

use std::time::Instant;

use futures_util::future::BoxFuture;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::sandbox::{Owner, Progress};

/// The `_meta` key, and the header, by which any client can name its workspace.
const WORKSPACE_META: &str = "cellgate/workspace";
const WORKSPACE_HEADER: &str = "cellgate-workspace";

/// The workspace of that name, which a client or an operator chose.
pub fn named(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return format!("named:{name}");
    }
    format!("named-sha256:{}", hex::encode(Sha256::digest(name)))
}

/// The workspace of an MCP session.
pub fn of_session(id: &str) -> String {
    format!("session:{id}")
}

/// Longer names of workspaces, in bytes, are known by their hash.
const LONGEST_NAME: usize = 200;

/// Tenant, principal and workspace of a request (the principal is what the HTTP side found in the
/// credential, `local` where there is none).
pub(super) fn identity(context: &RequestContext<RoleServer>, home: &str) -> (Owner, String) {
    let parts = context.extensions.get::<http::request::Parts>();
    let owner = parts.and_then(|parts| parts.extensions.get::<Owner>()).cloned().unwrap_or_else(Owner::local);
    (owner, workspace(context, parts).unwrap_or_else(|| home.to_owned()))
}

/// The workspace: named in the URL, a header or `_meta`; else the session; else the client's name.
fn workspace(context: &RequestContext<RoleServer>, parts: Option<&http::request::Parts>) -> Option<String> {
    let header = |name: &str| {
        // HTTP allows more than ASCII in a value, and so do names.
        let value = std::str::from_utf8(parts?.headers.get(name)?.as_bytes()).ok()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let in_url = || {
        let query = parts?.uri.query()?.as_bytes();
        let (_, name) = url::form_urlencoded::parse(query).find(|(key, _)| key == "workspace")?;
        (!name.is_empty()).then(|| name.into_owned())
    };
    let in_meta = || Some(context.meta.get(WORKSPACE_META)?.as_str()?.to_owned());
    let client = || Some(format!("client:{}", context.client_info()?.name));
    in_url()
        .or_else(|| header(WORKSPACE_HEADER))
        .or_else(in_meta)
        .map(|name| named(&name))
        .or_else(|| header("mcp-session-id").map(|id| of_session(&id)))
        .or_else(|| parts.and_then(|_| client()))
}

/// The client of one request, which hears of progress if it gave a token.
pub(super) struct Client {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    begun: Instant,
    last: f64,
}

impl Client {
    /// The client of a request.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { peer: context.peer.clone(), token, begun: Instant::now(), last: 0.0 }
    }

    /// Whether it asked for progress.
    fn listens(&self) -> bool {
        self.token.is_some()
    }

    /// Tells how its call is getting on.
    pub(super) async fn tell(&mut self, message: String) {
        let Some(token) = &self.token else { return };
        // Progress has to rise from one notification to the next.
        self.last = self.begun.elapsed().as_secs_f64().max(self.last + 0.001);
        let news = ProgressNotificationParam::new(token.clone(), self.last).with_message(message);
        // A client that is gone hears nothing more; its call goes on or is cancelled on its own.
        let _ = self.peer.notify_progress(news).await;
    }
}

/// Where a tool says how it is getting on, and the task that carries it to the client until the
/// last holder is gone. Silent when the client gave no progress token.
pub(super) fn progress(mut client: Client) -> (Progress, BoxFuture<'static, ()>) {
    if !client.listens() {
        return (Progress::default(), Box::pin(std::future::ready(())));
    }
    let (sender, mut news) = mpsc::unbounded_channel::<String>();
    let forwarding = tokio::spawn(async move {
        while let Some(message) = news.recv().await {
            client.tell(message).await;
        }
    });
    (Progress::new(sender), Box::pin(async move { drop(forwarding.await) }))
}
