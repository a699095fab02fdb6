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

/// Libraries that log what they carry, code and credentials included, when asked for much.
const CARRIERS: [&str; 7] = ["rmcp", "tungstenite", "tokio_tungstenite", "hyper", "hyper_util", "reqwest", "h2"];

/// Starts logging. `RUST_LOG` narrows or widens it.
pub fn start(format: LogFormat, default: &str) {
    let wanted = std::env::var("RUST_LOG").ok().filter(|wanted| !wanted.is_empty());
    let wanted = quieted(wanted.as_deref().unwrap_or(default));
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(default));
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

/// The directives with what carries messages off, but for the libraries that they name.
fn quieted(wanted: &str) -> String {
    let names: Vec<&str> =
        wanted.split(',').filter_map(|directive| directive.trim().split(['=', ':', '[']).next()).collect();
    let quiet = CARRIERS.iter().filter(|carrier| !names.contains(carrier)).map(|carrier| format!(",{carrier}=off"));
    std::iter::once(wanted.to_owned()).chain(quiet).collect()
}

/// A line for the person who started this. Nobody reading it is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a line as `println!` does. Nobody reading it is no reason to fail, nor to leave sandboxes behind.
macro_rules! show {
    ($($line:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($line)*)));
    }};
}
pub(crate) use show;

#[cfg(test)]
mod tests {
    use super::quieted;

    #[test]
    fn what_carries_messages_is_silent_unless_it_is_named() {
        let quiet = quieted("debug");
        assert!(quiet.starts_with("debug,") && quiet.contains("rmcp=off") && quiet.contains("tungstenite=off"));
        let named = quieted("cellgate=info,rmcp=debug");
        assert!(!named.contains("rmcp=off") && named.contains("hyper=off"));
    }
}
