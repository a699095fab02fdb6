use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Hints, Tool, record};
use crate::answer::{Answer, Failure, Shape};
use crate::sandbox::LaunchRequest;
use crate::workspace::Caller;

/// Start a sandbox: a Jupyter server of your own with its own files. The first one becomes
/// active. Launching a name that runs answers that sandbox; a name that ran before gets its files
/// back.
#[derive(Deserialize, JsonSchema)]
pub(super) struct LaunchSandbox {
    /// Name, unique among yours
    sandbox_name: String,
    /// Provider; null = the default
    #[serde(default)]
    variant: Option<String>,
    /// Seconds until it has to be ready
    #[serde(default = "sixty")]
    #[schemars(range(min = 1), with = "i64")]
    timeout: u64,
    /// Profile the operator defined
    #[serde(default)]
    environment: Option<String>,
    /// Its version
    #[serde(default)]
    #[schemars(schema_with = "version")]
    environment_version: Option<Value>,
    /// GPU wish
    #[serde(default)]
    gpu: Option<String>,
    /// With variant `jupyter-server`: the server to attach
    #[serde(default)]
    server_url: Option<String>,
    /// That server's token
    #[serde(default)]
    token: Option<String>,
    /// Container image
    #[serde(default)]
    image: Option<String>,
    /// Cores
    #[serde(default)]
    cpu: Option<f64>,
    /// Such as `512Mi`
    #[serde(default)]
    memory: Option<String>,
    /// Environment variables
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Ends it after this long
    #[serde(default)]
    #[schemars(range(min = 1), with = "Option<i64>")]
    ttl_seconds: Option<u64>,
    /// Ends it when unused this long
    #[serde(default)]
    #[schemars(range(min = 1), with = "Option<i64>")]
    idle_timeout_seconds: Option<u64>,
}

fn sixty() -> u64 {
    60
}

fn version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "integer", "null"], "default": null})
}

impl Tool for LaunchSandbox {
    const NAME: &'static str = "launch_sandbox";
    const TITLE: &'static str = "Launch Sandbox";
    const KIND: &'static str = "sandbox.launch";
    const SHAPE: Shape = Shape::Object;
    const HINTS: Hints = Hints::RUNS;
    const NULL_ONLY: &'static [&'static str] =
        &["kernel_id", "proxy_token", "channels_url", "python_version", "snapshot_name"];

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let launched = caller.launch(self.request()).await?;
        let sandbox = launched.sandbox.record();
        let mut message = if launched.existing {
            format!("Sandbox '{}' is running already.", sandbox.name)
        } else {
            format!("Sandbox '{}' ({}) is running.", sandbox.name, sandbox.variant)
        };
        if caller.is_active(sandbox.id.as_str()) {
            message.push_str(" It is the active sandbox.");
        } else {
            message.push_str(" Another one stays active: call use_sandbox, or pass sandbox_name.");
        }
        if let Some(files) = &sandbox.files {
            let brought = if launched.brought_back {
                "The files of the last one of this name are there again, in"
            } else {
                "Its files are in"
            };
            let end = if sandbox.ephemeral { "deleted" } else { "kept" };
            message = format!("{message} {brought} {files}; they are {end} when it ends.");
        }
        let mut fields = Map::new();
        fields.insert("sandbox".to_owned(), record::of(caller, &sandbox, &caller.notebooks_by_sandbox()));
        Ok(Answer::object(message, fields))
    }
}

impl LaunchSandbox {
    fn request(self) -> LaunchRequest {
        LaunchRequest {
            name: self.sandbox_name,
            variant: self.variant,
            timeout: Duration::from_secs(self.timeout),
            environment: self.environment,
            environment_version: self.environment_version.map(|version| match version {
                Value::String(version) => version,
                version => version.to_string(),
            }),
            gpu: self.gpu,
            server_url: self.server_url,
            token: self.token.map(SecretString::from),
            image: self.image,
            cpu: self.cpu,
            memory: self.memory,
            env: self.env.unwrap_or_default(),
            ttl_seconds: self.ttl_seconds,
            idle_timeout_seconds: self.idle_timeout_seconds,
            operators: false,
        }
    }
}
