//! The command line.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Settings};
use crate::sandbox::{self, FleetError, ProviderError};
use crate::service::{gateway, stop_on_signal};
use crate::telemetry::{say, show};
use crate::{demo, http, stdio, telemetry};

/// One MCP endpoint in front of as many Jupyter sandboxes as your agents need.
#[derive(Parser)]
#[command(name = "cellgate", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Action>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Clone, Copy, Subcommand)]
enum Action {
    /// Serve MCP over Streamable HTTP (what `cellgate` alone does)
    Serve,
    /// Serve MCP over stdin and stdout, for a client that starts the gateway itself
    Stdio,
    /// Show an agent's session from launch to terminate, for real; keeps what it makes in ./cellgate-demo
    Demo,
    /// Say which providers can run here, and what is missing
    Doctor,
}

/// Runs the command. Exit code 2: the settings are wrong; 1: it failed.
pub async fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match config::with_file(Cli::command(), &arguments) {
        Ok(command) => command.get_matches_from(arguments),
        Err(error) => return failed(&error, 2),
    };
    let cli = match Cli::from_arg_matches(&cli) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
    let outcome = match cli.command.unwrap_or(Action::Serve) {
        Action::Serve => serve(&cli.settings).await,
        Action::Stdio => serve_stdio(&cli.settings).await,
        Action::Demo => demo::run(&cli.settings).await,
        Action::Doctor => return doctor(&cli.settings).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<BadSettings>() => failed(&error, 2),
        Err(error) => failed(&error, 1),
    }
}

/// Settings that can't work, told apart for the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BadSettings(String);

/// A variant that isn't there is a wrong setting; all else is a failure.
fn told_apart(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<FleetError>() {
        Some(FleetError::Provider(ProviderError::Unknown { .. })) => BadSettings(format!("{error:#}")).into(),
        _ => error,
    }
}

fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    say(&format!("cellgate: {error:#}"));
    ExitCode::from(code)
}

async fn serve(settings: &Settings) -> anyhow::Result<()> {
    telemetry::start(settings.log_format, "cellgate=info,warn,rmcp=off");
    let access = settings.access().map_err(|error| BadSettings(format!("{error:#}")))?;
    let listener =
        TcpListener::bind(settings.listen).await.with_context(|| format!("can't listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let gateway = gateway(settings, settings.listen.ip().is_loopback()).await.map_err(told_apart)?;
    let stop = stop_on_signal();
    say(&format!("cellgate {} listening on http://{address}{}", env!("CARGO_PKG_VERSION"), http::ENDPOINT));
    if settings.variant == "process" {
        say("cellgate: process sandboxes isolate nothing: code in them runs as you");
    }
    let fleet = Arc::clone(gateway.workspaces().fleet());
    let served = tokio::select! {
        served = http::serve(gateway, listener, access, stop.clone()) => served,
        () = drained(&stop) => Ok(()),
    };
    fleet.shutdown().await;
    served.context("the listener failed")
}

async fn serve_stdio(settings: &Settings) -> anyhow::Result<()> {
    telemetry::start(settings.log_format, "cellgate=warn,error,rmcp=off");
    let gateway = gateway(settings, true).await.map_err(told_apart)?;
    let fleet = Arc::clone(gateway.workspaces().fleet());
    let served = stdio::serve(gateway, stop_on_signal()).await;
    fleet.shutdown().await;
    served
}

async fn doctor(settings: &Settings) -> ExitCode {
    let findings = sandbox::doctor(&settings.fleet()).await;
    for finding in &findings {
        show!("{} {:<14} {}", if finding.ok { "✓" } else { "✗" }, finding.provider, finding.detail);
    }
    // What matters is the provider that this configuration launches with.
    match findings.iter().find(|finding| finding.provider == settings.variant) {
        Some(finding) if finding.ok => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => failed(&anyhow::anyhow!("there is no variant '{}'", settings.variant), 2),
    }
}

/// How long answers may take to go out once the gateway is told to stop.
async fn drained(stop: &CancellationToken) {
    const GRACE: std::time::Duration = std::time::Duration::from_secs(5);
    stop.cancelled().await;
    tokio::time::sleep(GRACE).await;
}
