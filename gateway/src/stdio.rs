//! MCP over stdin and stdout: one client, one process.

use std::time::Duration;

use rmcp::ServiceExt;
use tokio_util::sync::CancellationToken;

use crate::mcp::Gateway;

/// Serves the client at the other end of stdin until it closes it or `stop` is cancelled; then the calls in flight get
/// `drain` to finish.
///
/// # Errors
/// When the handshake fails or the connection's task does.
pub async fn serve(gateway: Gateway, drain: Duration, stop: CancellationToken) -> anyhow::Result<()> {
    let (closing, calls) = (CancellationToken::new(), gateway.clone());
    let running = tokio::select! {
        running = gateway.serve_with_ct(rmcp::transport::stdio(), closing.clone()) => running?,
        () = stop.cancelled() => return Ok(()),
    };
    let told = async {
        stop.cancelled().await;
        calls.workspaces().fleet().refuse_launches();
        calls.drain(drain).await;
        closing.cancel();
    };
    let waiting = running.waiting();
    tokio::pin!(waiting);
    let ended = tokio::select! {
        ended = &mut waiting => ended,
        () = told => waiting.await,
    };
    // Whoever closed its end hears nothing more: what runs is interrupted, and saved.
    calls.drain(Duration::ZERO).await;
    ended?;
    Ok(())
}
