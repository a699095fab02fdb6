//! A gateway from its settings, and when it is told to stop.

use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::config::Settings;
use crate::database::Database;
use crate::mcp::Gateway;
use crate::sandbox::{Fleet, FleetError};
use crate::telemetry::say;
use crate::workspace::Workspaces;

/// A gateway with what stands behind it.
pub struct Service {
    /// The gateway.
    pub gateway: Gateway,
    /// The database of its data directory.
    pub database: Arc<Database>,
}

/// Who can reach a gateway, and where a call is that tells of no workspace.
#[derive(Clone, Copy)]
pub struct Reach<'a> {
    /// Only one person, on this machine.
    pub own_machine: bool,
    /// The workspace of calls that tell of none; this process's own without one.
    pub home: Option<&'a str>,
}

impl Service {
    /// A gateway in front of the sandboxes of the data directory.
    ///
    /// # Errors
    /// When the data directory, the audit trail or the default sandbox's token can't be used.
    pub async fn open(settings: &Settings, reach: Reach<'_>) -> anyhow::Result<Self> {
        let policy = settings.policy(reach.own_machine)?;
        let database = Arc::new(Database::open(&settings.data_dir()).map_err(FleetError::from)?);
        let audit = settings.audit.as_deref().map_or_else(|| Ok(Audit::default()), Audit::to);
        let audit = Arc::new(audit.context("the audit trail can't be written")?);
        let fleet = Fleet::open(settings.fleet(reach.own_machine), Arc::clone(&database), audit).await?;
        let workspaces = Workspaces::open(fleet, policy, Arc::clone(&database))?;
        let home = reach.home.map_or_else(|| workspaces.of_process(), str::to_owned);
        let gateway = Gateway::new(Arc::new(workspaces), settings.limits(), &home);
        Ok(Self { gateway, database })
    }

    /// The sandboxes behind it.
    pub fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(self.gateway.workspaces().fleet())
    }
}

/// Cancelled by Ctrl-C or SIGTERM, from now on; the second one ends the process at once.
///
/// # Errors
/// When the signals can't be listened for.
pub fn stop_on_signal() -> std::io::Result<CancellationToken> {
    // Listened for before anybody hears that the gateway is there.
    let mut signals =
        Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        say("cellgate: stopping; process sandboxes end first (once more to quit at once)");
        signalled.cancel();
        signals.next().await;
        std::process::exit(130);
    });
    Ok(stop)
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
