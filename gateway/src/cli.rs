//! The command line.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::net::TcpListener;

use crate::config::{self, Settings};
use crate::operate::{Pruning, Selection};
use crate::sandbox::{self, Progress};
use crate::service::{Reach, Service, stop_on_signal};
use crate::telemetry::{say, show};
use crate::{check, demo, http, mcp, operate, stdio, telemetry};

/// One MCP endpoint in front of as many Jupyter sandboxes as your agents need.
#[derive(Parser)]
#[command(name = "cellgate", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Action>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum Action {
    /// Serve MCP over Streamable HTTP (what `cellgate` alone does)
    Serve,
    /// Serve MCP over stdin and stdout, for a client that starts the gateway itself
    Stdio {
        /// The workspace that the client works in, so that its notebooks are open again after a restart [default: a new one]
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
    },
    /// Show an agent's session from launch to terminate, for real; keeps what it makes in ./cellgate-demo
    Demo,
    /// Try a running gateway from outside: handshake, launch, run a cell, clean up. Its token is that of `CELLGATE_TOKEN` or `--token-file`
    Check(check::Arguments),
    /// List everyone's sandboxes in the data directory, whether or not a gateway runs
    List(Selection),
    /// End sandboxes by name or id; their files are kept
    #[command(arg_required_else_help = true)]
    Terminate(Selection),
    /// List the files that no sandbox uses, and delete them with --yes
    Prune(Pruning),
    /// Remove what is left in the cluster of sandboxes whose gateway never came back (variant kubernetes); a job of the chart
    Sweep,
    /// Make a new master key, from which tokens are derived and with which callers' secrets are sealed
    RotateKey,
    /// Say which providers can run here, and what is missing
    Doctor,
}

/// Runs the command. Exit code 2: the settings are wrong; 1: it failed.
pub async fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let (command, environments) = match config::with_file(Cli::command(), &arguments) {
        Ok(read) => read,
        Err(error) => return failed(&error, 2),
    };
    let mut cli = match Cli::from_arg_matches(&command.get_matches_from(arguments)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    cli.settings.environments = environments;
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
    let outcome = match cli.command.unwrap_or(Action::Serve) {
        Action::Serve => serve(&cli.settings).await,
        Action::Stdio { workspace } => serve_stdio(&cli.settings, workspace.as_deref()).await,
        Action::Demo => demo::run(&cli.settings).await,
        Action::Check(arguments) => return checked(&arguments, &cli.settings).await,
        Action::List(selection) => operate::list(&cli.settings, &selection),
        Action::Terminate(selection) => operate::terminate(&cli.settings, &selection).await,
        Action::Prune(pruning) => operate::prune(&cli.settings, &pruning).await,
        Action::Sweep => operate::sweep(&cli.settings).await,
        Action::RotateKey => operate::rotate_key(&cli.settings),
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

impl BadSettings {
    #[expect(clippy::needless_pass_by_value, reason = "it stands for the error")]
    fn new(error: anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    say(&format!("cellgate: {error:#}"));
    ExitCode::from(code)
}

async fn serve(settings: &Settings) -> anyhow::Result<()> {
    telemetry::start(settings.log_format, "cellgate=info,warn,rmcp=off");
    settings.check().map_err(BadSettings::new)?;
    let access = settings.access().map_err(BadSettings::new)?;
    let listener =
        TcpListener::bind(settings.listen).await.with_context(|| format!("can't listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let own_machine = settings.listen.ip().is_loopback() && settings.tokens.is_none();
    let reach = Reach { own_machine, home: Some("anonymous") };
    let stop = stop_on_signal()?;
    let service = Service::open(settings, reach).await?;
    let fleet = service.fleet();
    say(&format!("cellgate {} listening on http://{address}{}", env!("CARGO_PKG_VERSION"), http::ENDPOINT));
    if settings.variant == "process" {
        say("cellgate: process sandboxes isolate nothing: code in them runs as you");
    }
    let server = http::Server {
        gateway: service.gateway,
        database: service.database,
        access,
        drain: Duration::from_secs(settings.drain),
    };
    let outcome = server.serve(listener, stop).await;
    fleet.shutdown().await;
    outcome.context("the listener failed")
}

async fn serve_stdio(settings: &Settings, workspace: Option<&str>) -> anyhow::Result<()> {
    telemetry::start(settings.log_format, "cellgate=warn,error,rmcp=off");
    settings.check().map_err(BadSettings::new)?;
    let home = workspace.map(mcp::named);
    let reach = Reach { own_machine: true, home: home.as_deref() };
    let stop = stop_on_signal()?;
    let service = Service::open(settings, reach).await?;
    let fleet = service.fleet();
    let served = stdio::serve(service.gateway, Duration::from_secs(settings.drain), stop).await;
    fleet.shutdown().await;
    served
}

async fn checked(arguments: &check::Arguments, settings: &Settings) -> ExitCode {
    match check::run(arguments, settings).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error, 2),
    }
}

async fn doctor(settings: &Settings) -> ExitCode {
    if let Err(error) = settings.check() {
        return failed(&error, 2);
    }
    let (sender, mut news) = tokio::sync::mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = news.recv().await {
            say(&format!("cellgate: {line}"));
        }
    });
    let findings = sandbox::doctor(&settings.fleet(true), &Progress::new(sender)).await;
    for finding in &findings {
        show!("{} {:<14} {}", if finding.ok { "✓" } else { "✗" }, finding.provider, finding.detail);
    }
    // What matters is the provider that this configuration launches with.
    let mut of_variant = findings.iter().filter(|finding| finding.provider == settings.variant);
    if of_variant.all(|finding| finding.ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
