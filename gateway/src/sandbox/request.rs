//! What a caller asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

/// A launch as it was asked for. A wish that the provider can't keep is refused by name.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    /// The sandbox's name.
    pub name: String,
    /// The provider; the configured default without one.
    pub variant: Option<String>,
    /// How long it may take until it is ready, from when it is its turn.
    pub timeout: Duration,
    /// An operator's profile.
    pub environment: Option<String>,
    /// The profile's version.
    pub environment_version: Option<String>,
    /// A GPU.
    pub gpu: Option<String>,
    /// The server to attach, with variant `jupyter-server`.
    pub server_url: Option<String>,
    /// That server's token.
    pub token: Option<SecretString>,
    /// A container image.
    pub image: Option<String>,
    /// Cores.
    pub cpu: Option<f64>,
    /// Memory, in bytes with a suffix.
    pub memory: Option<String>,
    /// Environment variables for Jupyter and its kernels.
    pub env: BTreeMap<String, String>,
    /// Ends it after this long.
    pub ttl_seconds: Option<u64>,
    /// Ends it when it wasn't used for this long.
    pub idle_timeout_seconds: Option<u64>,
    /// The server to attach was chosen by the operator, so it need not be among those that callers may attach.
    pub operators: bool,
}

impl Default for LaunchRequest {
    fn default() -> Self {
        Self {
            name: String::new(),
            variant: None,
            timeout: Duration::from_secs(60),
            environment: None,
            environment_version: None,
            gpu: None,
            server_url: None,
            token: None,
            image: None,
            cpu: None,
            memory: None,
            env: BTreeMap::new(),
            ttl_seconds: None,
            idle_timeout_seconds: None,
            operators: false,
        }
    }
}

impl LaunchRequest {
    /// The first wish of this request that is not among those that a provider keeps.
    pub(super) fn unkept(&self, kept: &[&str]) -> Option<&'static str> {
        let wishes = [
            ("environment", self.environment.is_some()),
            ("environment_version", self.environment_version.is_some()),
            ("gpu", self.gpu.is_some()),
            ("server_url", self.server_url.is_some()),
            ("token", self.token.is_some()),
            ("image", self.image.is_some()),
            ("cpu", self.cpu.is_some()),
            ("memory", self.memory.is_some()),
            ("env", !self.env.is_empty()),
            ("ttl_seconds", self.ttl_seconds.is_some()),
            ("idle_timeout_seconds", self.idle_timeout_seconds.is_some()),
        ];
        wishes.into_iter().find(|(wish, wished)| *wished && !kept.contains(wish)).map(|(wish, _)| wish)
    }

    /// What makes two requests the same: all of it but how long the caller is ready to wait.
    pub(super) fn canonical(&self, default_variant: &str) -> String {
        json!([
            self.variant.as_deref().unwrap_or(default_variant),
            self.environment,
            self.environment_version,
            self.gpu,
            self.server_url,
            self.token.as_ref().map(ExposeSecret::expose_secret),
            self.image,
            self.cpu,
            self.memory,
            self.env,
            self.ttl_seconds,
            self.idle_timeout_seconds,
        ])
        .to_string()
    }
}
