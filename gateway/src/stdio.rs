//! MCP over stdin and stdout: one client, one process.

use rmcp::ServiceExt;

use crate::mcp::Gateway;

/// Serves the client at the other end of stdin until it closes it or `stop` is cancelled.
///
/// # Errors
/// When the handshake fails or the connection's task does.
pub async fn serve(gateway: Gateway, stop: tokio_util::sync::CancellationToken) -> anyhow::Result<()> {
    let running = tokio::select! {
        running = gateway.serve_with_ct(rmcp::transport::stdio(), stop.clone()) => running?,
        () = stop.cancelled() => return Ok(()),
    };
    running.waiting().await?;
    Ok(())
}
