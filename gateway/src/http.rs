//! The HTTP side: `/mcp`, and what operators ask for.
//!
//! Every request to `/mcp` is checked on its own: Host and Origin against DNS rebinding, then the
//! credential. Health and metrics answer whatever the Host is, and hold nothing of any caller.

mod auth;
mod envelope;
mod health;
mod metrics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::mcp::Gateway;

/// The path of the MCP endpoint.
pub const ENDPOINT: &str = "/mcp";
/// The largest request body that is read.
const MAX_BODY: usize = 16 << 20;
/// How long an idle session of the 2025 protocol versions is kept. A quiet call counts as idle.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Who may reach the endpoint, and by which names.
#[derive(Clone, Default)]
pub struct Access {
    /// The bearer token; without one only loopback may be served.
    pub token: Option<SecretString>,
    /// Host names that clients use besides loopback's.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call besides loopback's.
    pub allowed_origins: Vec<String>,
}

/// Serves `gateway` on `listener` until `stop` is cancelled and the calls in flight are answered.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    gateway: Gateway,
    listener: TcpListener,
    access: Access,
    stop: CancellationToken,
) -> std::io::Result<()> {
    metrics::record();
    let address = listener.local_addr()?;
    let app = router(gateway, &access, address, &stop);
    let listener = listener.tap_io(|stream| {
        // Small answers must not wait for an acknowledgement; a socket without the option is slower, not wrong.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned()).await
}

fn router(gateway: Gateway, access: &Access, address: SocketAddr, stop: &CancellationToken) -> Router {
    let operators = Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::render))
        .with_state(Arc::clone(gateway.workspaces()));
    let hosts = names(&LOOPBACK, &access.allowed_hosts, address);
    let origins = access.allowed_origins.iter().cloned().chain(
        LOOPBACK
            .iter()
            .flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*"), format!("http://{host}")]),
    );
    let config = StreamableHttpServerConfig::default()
        .with_cancellation_token(stop.child_token())
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_LIFE);
    let sessions = Arc::new(sessions);
    let service = StreamableHttpService::new(move || Ok(gateway.clone()), Arc::clone(&sessions), config);
    let protocol = Router::new()
        .route_service(ENDPOINT, service.clone())
        .route_service(&format!("{ENDPOINT}/"), service)
        .layer(middleware::from_fn_with_state(sessions, envelope::check))
        .layer(middleware::from_fn_with_state(auth::Credential::new(access.token.clone()), auth::require));
    operators.merge(protocol)
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
