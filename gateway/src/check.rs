//! `cellgate check`: a running gateway from outside, end to end. A sandbox of its own is launched,
//! runs code and is terminated, whatever fails in between.

mod probe;
mod report;

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use tokio::time::Instant;
use url::Url;

use crate::config::Settings;
use crate::http::ENDPOINT;
use crate::service::stop_on_signal;
use probe::Probe;
use report::{Bounds, Report};

/// What can be checked, and how it is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The gateway's endpoint; the path /mcp may be left out. Its token comes from `CELLGATE_TOKEN` or --token-file
    #[arg(default_value = "http://127.0.0.1:8717/mcp")]
    url: String,
    /// Tell it as one JSON object
    #[arg(long)]
    json: bool,
    /// Seconds for all steps; the clean-up has 30 more
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Also prove that a sandbox doesn't reach this address, which is tried from here as well. May be repeated
    #[arg(long, value_name = "HOST:PORT")]
    unreachable: Vec<String>,
}

/// Checks the gateway, tells it on stdout, and answers whether all is fine.
///
/// # Errors
/// When the URL or the token can't be one; nothing was asked then.
pub async fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<bool> {
    crate::telemetry::start(settings.log_format, "error");
    let url = endpoint(&arguments.url)?;
    let probe = Probe::new(&url, settings.token()?.as_ref())?;
    let limit = Duration::from_secs(arguments.timeout);
    let bounds = Bounds { limit, deadline: Instant::now() + limit, stop: stop_on_signal()? };
    let mut report = Report::new(url.to_string(), arguments.json, bounds);
    report.step("handshake", probe.handshake()).await;
    report.step("tools", probe.tools()).await;
    let asked = report.is_fine();
    let launched = report.step("launch", probe.launch(arguments.timeout)).await;
    report.step("run", probe.run()).await;
    if !arguments.unreachable.is_empty() {
        report.step("isolation", probe.isolation(&arguments.unreachable)).await;
    }
    if asked {
        report.last_step("clean up", probe.clean_up(launched)).await;
    } else {
        report.not_tried("clean up");
    }
    Ok(report.end())
}

/// The endpoint that is meant. The query is left out: it could name somebody's workspace.
fn endpoint(text: &str) -> anyhow::Result<Url> {
    let mut url: Url = text.parse().map_err(|_| no_endpoint(text))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(no_endpoint(text));
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("a URL must not hold credentials: put the token into CELLGATE_TOKEN or --token-file");
    }
    if url.path() == "/" {
        url.set_path(ENDPOINT);
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

fn no_endpoint(text: &str) -> anyhow::Error {
    anyhow!("'{text}' can't be a gateway's URL: give one such as http://127.0.0.1:8717{ENDPOINT}")
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn a_url_without_a_path_gets_the_endpoints_and_another_is_kept() {
        for (text, url) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1/mcp"),
            ("https://gateway.example/", "https://gateway.example/mcp"),
            ("http://gateway.example/team/mcp", "http://gateway.example/team/mcp"),
            ("http://gateway.example/mcp?workspace=mine#top", "http://gateway.example/mcp"),
        ] {
            assert_eq!(endpoint(text).unwrap().as_str(), url);
        }
    }

    #[test]
    fn what_can_not_be_a_gateways_url_is_refused_and_credentials_are_not_repeated() {
        for text in ["", "gateway", "localhost:8717", "127.0.0.1:8717", "ftp://gateway.example", "http://"] {
            assert!(endpoint(text).unwrap_err().to_string().contains("such as http://"), "{text}");
        }
        let refused = endpoint("http://me:secret@gateway.example").unwrap_err().to_string();
        assert!(refused.contains("CELLGATE_TOKEN") && !refused.contains("secret"), "{refused}");
    }
}
