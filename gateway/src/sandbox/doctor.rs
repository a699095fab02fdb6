//! Which providers can run here, and what is missing.

use super::{FleetConfig, Progress, docker, kubernetes, process};

/// One thing that was found out about a provider.
pub struct Finding {
    /// The provider's name.
    pub provider: &'static str,
    /// Whether that is as it has to be.
    pub ok: bool,
    /// What it is like, or what is missing.
    pub detail: String,
}

/// Looks at every provider. What it makes to try the one that launches is gone afterwards, but for its image.
pub async fn doctor(config: &FleetConfig, news: &Progress) -> Vec<Finding> {
    let process = process::doctor(config).await;
    let (ok, detail) = (process.is_ok(), process.unwrap_or_else(|missing| missing));
    let attached = "attaches a Jupyter server that already runs: needs its URL and token".to_owned();
    let mut findings = vec![Finding { provider: "process", ok, detail }];
    findings.extend(docker::doctor(config, news).await);
    let kubernetes = kubernetes::doctor(config).await;
    let (ok, detail) = (kubernetes.is_ok(), kubernetes.unwrap_or_else(|missing| missing));
    findings.push(Finding { provider: "kubernetes", ok, detail });
    findings.push(Finding { provider: "jupyter-server", ok: true, detail: attached });
    findings
}
