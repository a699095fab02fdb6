//! Settings: from flags, `CELLGATE_...` variables and a TOML file, in that order, with one set of
//! names. A name that isn't known is an error that says the nearest.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, Args, Command};
use secrecy::SecretString;

use crate::answer::Limits;
use crate::http::{Access, Principals, Tokens};
use crate::jupyter::Server;
use crate::points;
use crate::sandbox::{
    Attachable, Capacity, DockerConfig, FleetConfig, KubernetesConfig, Lifetimes, Pattern, Profile, Profiles, Size,
};
use crate::telemetry::LogFormat;
use crate::workspace::{DefaultServer, Policy};

/// Variables that are no settings: the token, the configuration file, and the marks that a gateway
/// finds when it runs inside a sandbox itself; and by which tests hold a debug build.
const OTHER_VARIABLES: [&str; 5] =
    ["CELLGATE_TOKEN", "CELLGATE_CONFIG", "CELLGATE_SANDBOX", "CELLGATE_INSTANCE", points::VARIABLE];

/// The table of profiles in the configuration file.
const ENVIRONMENTS: &str = "environments";

/// Everything an operator can set.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Settings (also CELLGATE_... variables, and keys of the configuration file)")]
pub struct Settings {
    /// TOML file with the settings below, such as `listen = "127.0.0.1:8717"`
    #[arg(long, env = "CELLGATE_CONFIG", global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to serve on; the endpoint is /mcp. Port 0 lets the system choose
    #[arg(long, env = "CELLGATE_LISTEN", global = true, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8717")]
    pub listen: SocketAddr,
    /// Where records, workspaces and their files are kept [default: ~/.local/share/cellgate]
    #[arg(long, env = "CELLGATE_DATA_DIR", global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where the Python environment is built, once for all data directories [default: ~/.cache/cellgate]
    #[arg(long, env = "CELLGATE_CACHE_DIR", global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// The provider that launches sandboxes when a call names none
    #[arg(long, env = "CELLGATE_VARIANT", global = true, value_name = "NAME", default_value = "process")]
    pub variant: String,
    /// The Python that the sandboxes' environment is made with [default: python3 on the PATH]
    #[arg(long, env = "CELLGATE_PYTHON", global = true, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// File with the bearer token that callers have to show (or its text in the variable `CELLGATE_TOKEN`)
    #[arg(long, env = "CELLGATE_TOKEN_FILE", global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with a line `tenant principal sha256-of-the-token` for each token, read again when it changes
    #[arg(long, env = "CELLGATE_TOKENS", global = true, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Let others than you launch sandboxes that isolate nothing (variant process)
    #[arg(long, env = "CELLGATE_ALLOW_UNISOLATED", global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub allow_unisolated: bool,
    /// Host names that clients use besides localhost, comma-separated
    #[arg(long, env = "CELLGATE_ALLOWED_HOSTS", global = true, value_name = "HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call, comma-separated
    #[arg(long, env = "CELLGATE_ALLOWED_ORIGINS", global = true, value_name = "ORIGINS", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,
    /// Whether a call that needs a sandbox launches one when the caller has none [default: on loopback and stdio]
    #[arg(long, env = "CELLGATE_AUTO_LAUNCH", global = true, value_name = "BOOL")]
    pub auto_launch: Option<bool>,
    /// Seconds that code may run when a call asks for 0
    #[arg(long, env = "CELLGATE_EXECUTION_TIMEOUT", global = true, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    pub execution_timeout: u64,
    /// Seconds that code may run at most
    #[arg(long, env = "CELLGATE_EXECUTION_CEILING", global = true, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub execution_ceiling: u64,
    /// Seconds after which a sandbox ends when its launch names no `ttl_seconds` [default: never]
    #[arg(long, env = "CELLGATE_TTL", global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub ttl: Option<u64>,
    /// The most that a launch may ask for as `ttl_seconds` [default: no limit]
    #[arg(long, env = "CELLGATE_TTL_CEILING", global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub ttl_ceiling: Option<u64>,
    /// Seconds after which an unused sandbox ends
    #[arg(long, env = "CELLGATE_IDLE_TIMEOUT", global = true, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_timeout: u64,
    /// The most that a launch may ask for as `idle_timeout_seconds` [default: no limit]
    #[arg(long, env = "CELLGATE_IDLE_CEILING", global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_ceiling: Option<u64>,
    /// Sandboxes that one principal may have running
    #[arg(long, env = "CELLGATE_MAX_SANDBOXES", global = true, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_sandboxes: u64,
    /// Sandboxes that may be running in all
    #[arg(long, env = "CELLGATE_MAX_SANDBOXES_IN_ALL", global = true, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_sandboxes_in_all: u64,
    /// Sandboxes that are launched at the same time; others wait for their turn
    #[arg(long, env = "CELLGATE_LAUNCHES_AT_ONCE", global = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub launches_at_once: u64,
    /// Whether process sandboxes go on running when the gateway is told to stop, for its next start
    #[arg(long, env = "CELLGATE_KEEP_SANDBOXES", global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub keep_sandboxes: bool,
    /// Whether a sandbox's files are deleted when it ends
    #[arg(long, env = "CELLGATE_EPHEMERAL", global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub ephemeral: bool,
    /// Days after their last use until the files of ended sandboxes are deleted [default: kept until `cellgate prune`]
    #[arg(long, env = "CELLGATE_RETENTION", global = true, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36500))]
    pub retention: Option<u64>,
    /// File with the master keys, one of 64 hexadecimal digits a line, newest first [default: master.key in the data directory]
    #[arg(long, env = "CELLGATE_MASTER_KEY_FILE", global = true, value_name = "FILE")]
    pub master_key_file: Option<PathBuf>,
    /// A Jupyter server that runs already, which is the default sandbox (also the variable `JUPYTER_URL`)
    #[arg(long, env = "CELLGATE_JUPYTER_URL", global = true, value_name = "URL")]
    pub jupyter_url: Option<String>,
    /// File with that server's token (or its text in the variable `JUPYTER_TOKEN`)
    #[arg(long, env = "CELLGATE_JUPYTER_TOKEN_FILE", global = true, value_name = "FILE")]
    pub jupyter_token_file: Option<PathBuf>,
    /// Servers that callers may attach where the gateway is not on loopback: `host`, `host:port`, `https://host` or `*.domain`, comma-separated
    #[arg(long, env = "CELLGATE_ATTACHABLE", global = true, value_name = "SERVERS", value_delimiter = ',')]
    pub attachable: Vec<Pattern>,
    /// Where the audit trail goes as JSON lines: a file, or - for stderr [default: nowhere]
    #[arg(long, env = "CELLGATE_AUDIT", global = true, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Seconds that calls in flight get to finish when the gateway is told to stop
    #[arg(long, env = "CELLGATE_DRAIN", global = true, value_name = "SECONDS", default_value_t = 10)]
    pub drain: u64,
    /// Characters of text in one answer at most
    #[arg(long, env = "CELLGATE_TEXT_LIMIT", global = true, value_name = "CHARACTERS", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub text_limit: u64,
    /// Bytes of the structured half of one answer at most
    #[arg(long, env = "CELLGATE_STRUCTURED_LIMIT", global = true, value_name = "BYTES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..))]
    pub structured_limit: u64,
    /// Images above this size stand in `content` alone, not in the structured half
    #[arg(long, env = "CELLGATE_IMAGE_LIMIT", global = true, value_name = "BYTES", default_value_t = 262_144)]
    pub image_limit: u64,
    /// Address of the Docker Engine or Podman, unix://... or tcp://... [default: `DOCKER_HOST`, else the first socket that is there]
    #[arg(long, env = "CELLGATE_DOCKER_HOST", global = true, value_name = "ADDRESS")]
    pub docker_host: Option<String>,
    /// The image that sandbox images are built on: a Debian 13, such as one with your own certificates and mirrors
    #[arg(long, env = "CELLGATE_BASE_IMAGE", global = true, value_name = "IMAGE", default_value = "debian:13.8-slim")]
    pub base_image: String,
    /// Namespace of the sandboxes' pods [default: the gateway's own, or the kubeconfig's]
    #[arg(long, env = "CELLGATE_KUBERNETES_NAMESPACE", global = true, value_name = "NAME")]
    pub kubernetes_namespace: Option<String>,
    /// What pods are labelled as belonging to, as a release [default: an id of the data directory]
    #[arg(long, env = "CELLGATE_KUBERNETES_GATEWAY", global = true, value_name = "NAME")]
    pub kubernetes_gateway: Option<String>,
    /// Storage class of the claims that sandboxes' files are kept in [default: none, files end with their pod]
    #[arg(long, env = "CELLGATE_STORAGE_CLASS", global = true, value_name = "NAME")]
    pub storage_class: Option<String>,
    /// How large those claims are
    #[arg(long, env = "CELLGATE_STORAGE_SIZE", global = true, value_name = "SIZE", default_value = "10Gi")]
    pub storage_size: Size,
    /// Images that callers may name, as globs such as `team/*:1.*`, comma-separated [default: none]
    #[arg(long, env = "CELLGATE_IMAGES", global = true, value_name = "IMAGES", value_delimiter = ',')]
    pub images: Vec<String>,
    /// What callers may choose as `environment`: tables `[environments.<name>]` of the configuration file
    #[arg(skip)]
    pub environments: BTreeMap<String, Profile>,
    /// How log lines look on stderr
    #[arg(long, env = "CELLGATE_LOG_FORMAT", global = true, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

impl Settings {
    /// Where records, workspaces and their files are kept.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| user_dir("XDG_DATA_HOME", ".local/share"))
    }

    /// How sandboxes are made and kept; `own_machine` when only one person on this machine can reach the gateway.
    pub fn fleet(&self, own_machine: bool) -> FleetConfig {
        FleetConfig {
            data_dir: self.data_dir(),
            master_key_file: self.master_key_file.clone(),
            variant: self.variant.clone(),
            capacity: Capacity { per_principal: size(self.max_sandboxes), in_all: size(self.max_sandboxes_in_all) },
            launches_at_once: size(self.launches_at_once),
            lifetimes: Lifetimes {
                ttl: self.ttl.map(Duration::from_secs),
                ttl_ceiling: self.ttl_ceiling.map(Duration::from_secs),
                idle_timeout: Duration::from_secs(self.idle_timeout),
                idle_ceiling: self.idle_ceiling.map(Duration::from_secs),
            },
            attachable: if own_machine && self.attachable.is_empty() {
                Attachable::Any
            } else {
                Attachable::Listed(self.attachable.clone())
            },
            keep_on_stop: self.keep_sandboxes,
            ephemeral: self.ephemeral,
            retention: self.retention.map(|days| Duration::from_secs(days * 24 * 3600)),
            cache_dir: self.cache_dir.clone().unwrap_or_else(|| user_dir("XDG_CACHE_HOME", ".cache")),
            python: self.python.clone(),
            // Checked before anything is opened.
            profiles: Arc::new(self.profiles().unwrap_or_default()),
            kubernetes: KubernetesConfig {
                namespace: self.kubernetes_namespace.clone(),
                gateway: self.kubernetes_gateway.clone(),
                storage_class: self.storage_class.clone(),
                storage_size: self.storage_size,
            },
            docker: DockerConfig { host: self.docker_host.clone(), base_image: self.base_image.clone() },
        }
    }

    fn profiles(&self) -> anyhow::Result<Profiles> {
        Profiles::new(self.environments.clone(), &self.images).map_err(anyhow::Error::msg)
    }

    /// Refuses settings that can't work, before anything is opened.
    ///
    /// # Errors
    /// With the setting, and what to do.
    pub fn check(&self) -> anyhow::Result<()> {
        self.profiles()?;
        self.fleet(true).check()?;
        self.policy(true).map(drop)
    }

    /// What is decided about calls.
    ///
    /// # Errors
    /// When the token of the default sandbox can't be read.
    pub fn policy(&self, own_machine: bool) -> anyhow::Result<Policy> {
        let default_server = self.default_server()?;
        Ok(Policy {
            execution_timeout: Duration::from_secs(self.execution_timeout),
            execution_ceiling: Duration::from_secs(self.execution_ceiling),
            auto_launch: self.auto_launch.unwrap_or(own_machine || default_server.is_some()),
            default_server,
        })
    }

    fn default_server(&self) -> anyhow::Result<Option<DefaultServer>> {
        let in_variable = || std::env::var("JUPYTER_URL").ok().filter(|url| !url.is_empty());
        let Some(url) = self.jupyter_url.clone().or_else(in_variable) else { return Ok(None) };
        let token = match &self.jupyter_token_file {
            Some(file) => Some(secret_in(file)?),
            None => std::env::var("JUPYTER_TOKEN").ok().filter(|token| !token.is_empty()).map(SecretString::from),
        };
        let name = Server::new(&url, token.clone()).context("JUPYTER_URL or --jupyter-url")?.name();
        Ok(Some(DefaultServer { name, url, token }))
    }

    /// How large answers may get.
    pub fn limits(&self) -> Limits {
        Limits {
            text_chars: size(self.text_limit),
            structured_bytes: size(self.structured_limit),
            image_bytes: size(self.image_limit),
        }
    }

    /// Who may reach the endpoint.
    ///
    /// # Errors
    /// When the address can be reached from other machines without a token or isolation, when both kinds of
    /// tokens are set, or when a file of theirs can't be used.
    pub fn access(&self) -> anyhow::Result<Access> {
        let tokens = self.tokens()?;
        if !self.listen.ip().is_loopback() {
            self.check_exposed(tokens.is_some())?;
        }
        let (allowed_hosts, allowed_origins) = (self.allowed_hosts.clone(), self.allowed_origins.clone());
        Ok(Access { tokens: tokens.map(Arc::new), allowed_hosts, allowed_origins })
    }

    fn check_exposed(&self, has_tokens: bool) -> anyhow::Result<()> {
        if !has_tokens {
            bail!(
                "{} can be reached from other machines, so callers need a token: set CELLGATE_TOKEN, --token-file or --tokens, or listen on 127.0.0.1",
                self.listen
            );
        }
        if !self.may_be_shared() {
            bail!(
                "{} can be reached from other machines, and variant 'process' isolates nothing (code in it runs as the gateway's user): choose another --variant, listen on 127.0.0.1, or say --allow-unisolated",
                self.listen
            );
        }
        Ok(())
    }

    /// Whether others than the one who runs the gateway may launch sandboxes.
    fn may_be_shared(&self) -> bool {
        self.variant != "process" || self.allow_unisolated
    }

    fn tokens(&self) -> anyhow::Result<Option<Tokens>> {
        let Some(file) = &self.tokens else { return Ok(self.token()?.as_ref().map(Tokens::single)) };
        if self.token_file.is_some() || std::env::var_os("CELLGATE_TOKEN").is_some() {
            bail!("tokens come from one place: set --tokens alone, or one of --token-file and CELLGATE_TOKEN");
        }
        let principals = if self.may_be_shared() { Principals::Many } else { Principals::One };
        Tokens::open(file.clone(), principals).map(Some).map_err(anyhow::Error::msg)
    }

    /// The one bearer token, which callers show.
    ///
    /// # Errors
    /// When its file can't be read, or it is empty.
    pub fn token(&self) -> anyhow::Result<Option<SecretString>> {
        let text = match (&self.token_file, std::env::var("CELLGATE_TOKEN")) {
            (Some(file), _) => return secret_in(file).map(Some),
            (None, Ok(text)) => text,
            (None, Err(_)) => return Ok(None),
        };
        let text = text.trim();
        if text.is_empty() {
            bail!("the token is empty: put one into CELLGATE_TOKEN or the token file, or unset them");
        }
        Ok(Some(SecretString::from(text)))
    }
}

fn secret_in(file: &Path) -> anyhow::Result<SecretString> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("the token file {} can't be read", file.display()))?;
    let text = text.trim();
    if text.is_empty() {
        bail!("the token file {} is empty: put the token into it", file.display());
    }
    Ok(SecretString::from(text))
}

fn size(setting: u64) -> usize {
    usize::try_from(setting).unwrap_or(usize::MAX)
}

fn user_dir(variable: &str, below_home: &str) -> PathBuf {
    let base = std::env::var_os(variable).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(below_home));
    base.or_else(home).unwrap_or_else(std::env::temp_dir).join("cellgate")
}

/// Makes the configuration file's values the defaults of `command`, and refuses unknown names. Answers its profiles as well.
///
/// # Errors
/// When the file can't be read, or it or the environment has a name that no setting has.
pub fn with_file(mut command: Command, arguments: &[OsString]) -> anyhow::Result<(Command, BTreeMap<String, Profile>)> {
    let names = names(&command);
    refuse_unknown_variables(&names)?;
    let mut environments = BTreeMap::new();
    let Some(file) = file(arguments) else { return Ok((command, environments)) };
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("the configuration file {} can't be read", file.display()))?;
    let table: toml::Table = text.parse().with_context(|| format!("{} is not TOML", file.display()))?;
    for (key, value) in table {
        if key == ENVIRONMENTS {
            environments = value.try_into().with_context(|| format!("{}: {ENVIRONMENTS}", file.display()))?;
            continue;
        }
        let name = key.replace('-', "_");
        if name == "config" || !names.contains(&name) {
            bail!("{}: there is no setting '{key}'{}", file.display(), nearest(&name, &names));
        }
        let values = values(&value)
            .with_context(|| format!("{}: '{key}' has to be a text, a number or a list of texts", file.display()))?;
        command = command.mut_arg(name, |argument| argument.default_values(values));
    }
    Ok((command, environments))
}

fn names(command: &Command) -> Vec<String> {
    command
        .get_arguments()
        .filter(|argument| argument.get_env().is_some())
        .map(|argument| argument.get_id().to_string())
        .collect()
}

fn file(arguments: &[OsString]) -> Option<PathBuf> {
    let flags: Vec<String> = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let position = flags.iter().position(|flag| flag == "--config");
    let following = position.and_then(|at| flags.get(at + 1)).map(PathBuf::from);
    let joined = || flags.iter().find_map(|flag| flag.strip_prefix("--config=").map(PathBuf::from));
    following
        .or_else(joined)
        .or_else(|| std::env::var_os("CELLGATE_CONFIG").map(PathBuf::from))
        .filter(|path| path != Path::new(""))
}

fn values(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(vec![text.clone()]),
        toml::Value::Integer(number) => Some(vec![number.to_string()]),
        toml::Value::Boolean(flag) => Some(vec![flag.to_string()]),
        toml::Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn refuse_unknown_variables(names: &[String]) -> anyhow::Result<()> {
    for (variable, value) in std::env::vars_os() {
        let variable = variable.to_string_lossy().into_owned();
        if is_from_kubernetes(&variable, &value.to_string_lossy()) {
            continue;
        }
        let Some(name) = variable.strip_prefix("CELLGATE_") else { continue };
        let name = name.to_lowercase();
        if !OTHER_VARIABLES.contains(&variable.as_str()) && !names.contains(&name) {
            bail!("there is no setting for the variable {variable}{}", nearest(&name, names));
        }
    }
    Ok(())
}

/// Kubernetes tells each container of the namespace's Services: one named `cellgate` looks like settings.
fn is_from_kubernetes(variable: &str, value: &str) -> bool {
    ["CELLGATE_SERVICE_", "CELLGATE_PORT_"].iter().any(|prefix| variable.starts_with(prefix))
        || variable == "CELLGATE_PORT" && value.contains("://")
}

fn nearest(name: &str, names: &[String]) -> String {
    let nearest = names.iter().max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
    nearest.map_or(String::new(), |nearest| format!("; the nearest is '{nearest}'"))
}

#[cfg(test)]
mod tests {
    use super::is_from_kubernetes;

    #[test]
    fn a_service_named_cellgate_is_no_setting_and_a_mistake_still_is() {
        assert!(is_from_kubernetes("CELLGATE_SERVICE_HOST", "10.0.0.1"));
        assert!(is_from_kubernetes("CELLGATE_PORT_8717_TCP_ADDR", "10.0.0.1"));
        assert!(is_from_kubernetes("CELLGATE_PORT", "tcp://10.0.0.1:8717"));
        assert!(!is_from_kubernetes("CELLGATE_PORT", "8717"));
        assert!(!is_from_kubernetes("CELLGATE_LISTENN", "127.0.0.1:1"));
    }
}
