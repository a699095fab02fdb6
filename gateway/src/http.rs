//! The HTTP side: `/mcp`, and what operators ask for.
//!
//! Every request to `/mcp` is checked on its own: Host and Origin against DNS rebinding, then the
//! credential. Health and metrics answer whatever the Host is, and hold nothing of any caller.

mod auth;
mod envelope;
mod health;
mod metrics;
mod outbound;
mod sessions;
mod tokens;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use tokens::{Principals, Tokens};

use crate::database::Database;
use crate::mcp::Gateway;

/// The path of the MCP endpoint.
pub const ENDPOINT: &str = "/mcp";
/// The largest request body that is read.
const MAX_BODY: usize = 16 << 20;
/// How long an idle session of the 2025 protocol versions is kept. A quiet call counts as idle.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// How long the last answers may take to go out.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Who may reach the endpoint, and by which names.
#[derive(Clone, Default)]
pub struct Access {
    /// The bearer tokens; without any only loopback may be served.
    pub tokens: Option<Arc<Tokens>>,
    /// Host names that clients use besides loopback's.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call besides loopback's.
    pub allowed_origins: Vec<String>,
}

/// A gateway's HTTP side.
pub struct Server {
    /// The gateway.
    pub gateway: Gateway,
    /// Where sessions are kept.
    pub database: Arc<Database>,
    /// Who may reach it.
    pub access: Access,
    /// How long calls in flight get to finish when it is told to stop.
    pub drain: Duration,
}

impl Server {
    /// Serves on `listener` until `stop` is cancelled and the calls in flight are answered.
    ///
    /// # Errors
    /// When the listener or the database fails.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> anyhow::Result<()> {
        metrics::record();
        let (closing, answers) = (CancellationToken::new(), TaskTracker::new());
        let app = self.router(listener.local_addr()?, &closing)?;
        let app = app.layer(middleware::from_fn_with_state(answers.clone(), outbound::follow));
        let listener = listener.tap_io(|stream| {
            // Small answers must not wait for an acknowledgement; a socket without the option is slower, not wrong.
            let _ = stream.set_nodelay(true);
        });
        let stopped = stop.clone().cancelled_owned();
        let serving = axum::serve(listener, app).with_graceful_shutdown(stopped);
        let drained = async {
            stop.cancelled().await;
            self.gateway.workspaces().fleet().refuse_launches();
            self.gateway.drain(self.drain).await;
            answers.close();
            // Whoever doesn't read its answer is not waited for.
            let _ = timeout(LAST_WORDS, answers.wait()).await;
            closing.cancel();
            // Those who only listen; then the server ends by itself.
            tokio::time::sleep(LAST_WORDS).await;
        };
        tokio::select! {
            served = serving.into_future() => Ok(served?),
            () = drained => Ok(()),
        }
    }

    fn router(&self, address: SocketAddr, closing: &CancellationToken) -> anyhow::Result<Router> {
        let (gateway, workspaces) = (self.gateway.clone(), self.gateway.workspaces());
        let operators = Router::new()
            .route("/livez", get(health::live))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(metrics::render))
            .with_state(Arc::clone(workspaces));
        let sessions = sessions::Sessions::open(Arc::clone(&self.database), Arc::clone(workspaces))?;
        let mut config = StreamableHttpServerConfig::default()
            .with_cancellation_token(closing.child_token())
            .with_allowed_hosts(names(&LOOPBACK, &self.access.allowed_hosts, address))
            .with_allowed_origins(self.origins())
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY);
        config.session_store = Some(Arc::new(sessions.clone()));
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(SESSION_LIFE);
        let service = StreamableHttpService::new(move || Ok(gateway.clone()), Arc::new(manager), config);
        let protocol = Router::new()
            .route_service(ENDPOINT, service.clone())
            .route_service(&format!("{ENDPOINT}/"), service)
            .layer(middleware::from_fn_with_state(sessions, sessions::check))
            .layer(middleware::from_fn(envelope::check))
            .layer(middleware::from_fn_with_state(self.access.tokens.clone(), auth::require));
        Ok(operators.merge(protocol))
    }

    fn origins(&self) -> Vec<String> {
        let loopback = LOOPBACK
            .iter()
            .flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*"), format!("http://{host}")]);
        self.access.allowed_origins.iter().cloned().chain(loopback).collect()
    }
}

/// The host names to answer to: loopback's, those configured, and the address that is listened on.
fn names(loopback: &[&str], configured: &[String], address: SocketAddr) -> Vec<String> {
    let mut names: Vec<String> = loopback.iter().map(|&name| name.to_owned()).collect();
    names.push("::1".to_owned());
    names.extend(configured.iter().cloned());
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    names
}
