//! A gateway from its settings, and when it is told to stop.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::mcp::Gateway;
use crate::sandbox::Fleet;
use crate::telemetry::say;
use crate::workspace::Workspaces;

/// A gateway in front of the sandboxes of the data directory.
///
/// # Errors
/// When the data directory can't be used.
pub async fn gateway(settings: &Settings, own_machine: bool) -> anyhow::Result<Gateway> {
    let fleet = Fleet::open(settings.fleet()).await?;
    let workspaces = Workspaces::new(fleet, settings.policy(own_machine));
    Ok(Gateway::new(Arc::new(workspaces), settings.limits()))
}

/// Cancelled by Ctrl-C or SIGTERM; the second one ends the process at once.
pub fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    tokio::spawn(async move {
        signal().await;
        say("cellgate: stopping; sandboxes end first (once more to quit at once)");
        signalled.cancel();
        signal().await;
        std::process::exit(130);
    });
    stop
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
