//! MCP over stdin and stdout: one client, one process.

use std::time::Duration;

use futures_util::FutureExt;
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
    let drained = async {
        stop.cancelled().await;
        calls.workspaces().fleet().refuse_launches();
        calls.drain(drain).await;
        closing.cancel();
    };
    let (ended, ()) = tokio::join!(running.waiting().inspect(|_| stop.cancel()), drained);
    ended?;
    Ok(())
}
