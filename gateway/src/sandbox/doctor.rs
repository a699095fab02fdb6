//! Which providers can run here, and what is missing.

use super::{FleetConfig, process};

/// What was found out about one provider.
pub struct Finding {
    /// The provider's name.
    pub provider: &'static str,
    /// Whether it can run here.
    pub ok: bool,
    /// What it is like, or what is missing.
    pub detail: String,
}

/// Looks at every provider; changes nothing.
pub async fn doctor(config: &FleetConfig) -> Vec<Finding> {
    let (ok, detail) = match process::doctor(config).await {
        Ok(detail) => (true, detail),
        Err(missing) => (false, missing),
    };
    let attached = "attaches a Jupyter server that already runs: needs its URL and token".to_owned();
    vec![
        Finding { provider: "process", ok, detail },
        Finding { provider: "jupyter-server", ok: true, detail: attached },
        Finding { provider: "docker", ok: false, detail: "not in this version".to_owned() },
        Finding { provider: "kubernetes", ok: false, detail: "not in this version".to_owned() },
    ]
}
