//! Health: alive when the process answers, ready when sandboxes can be launched.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::workspace::Workspaces;

/// Alive, whatever the sandboxes do.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// Ready, or 503 with what is missing.
pub(super) async fn ready(State(workspaces): State<Arc<Workspaces>>) -> (StatusCode, String) {
    match workspaces.fleet().ready().await {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}
