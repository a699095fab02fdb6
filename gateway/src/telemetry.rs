//! Logs, on stderr only: stdout belongs to the protocol on stdio and to people elsewhere.

use std::io::{IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `RUST_LOG` narrows or widens it; the protocol library logs whole messages
/// below WARN, so it stays there unless asked for.
pub fn start(format: LogFormat, default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        // It would tell of a stderr that nobody reads on that stderr, and panic.
        .log_internal_errors(false);
    // A second start, in tests, keeps the first one's settings.
    let _ = match format {
        LogFormat::Text => builder.compact().try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

/// A line for the person who started this. Nobody reading it is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
