//! The environment of Jupyter and its kernels: cleared, then what is on the list, so that the
//! gateway's own secrets don't reach cells.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::directory::Directory;
use super::environment::Environment;
use super::marks;
use crate::sandbox::Plan;

/// Variables of the gateway that sandboxes get. A name that ends in `*` stands for all that begin so.
const ALLOWED: [&str; 21] = [
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "OPENBLAS_*",
];
/// Those of pip's that would make it install elsewhere than into the sandbox.
const NEVER: [&str; 4] = ["PIP_PREFIX", "PIP_ROOT", "PIP_TARGET", "PIP_USER"];
/// Where pip's own settings are, such as a mirror's address, below the gateway's home.
const PIP_SETTINGS: [&str; 3] = [".config/pip/pip.conf", "Library/Application Support/pip/pip.conf", ".pip/pip.conf"];

/// Everything that a sandbox's Jupyter is started with.
pub(super) fn of(
    plan: &Plan,
    directory: &Directory,
    workspace: &Path,
    environment: &Environment,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> =
        std::env::vars_os().filter(|(name, _)| is_allowed(&name.to_string_lossy())).collect();
    variables.extend(pip_settings().map(|file| ("PIP_CONFIG_FILE".into(), file)));
    let mut set = |name: &str, value: OsString| variables.push((name.into(), value));
    set("PATH", path(directory, environment));
    set("HOME", directory.join("home").into());
    set("IPYTHONDIR", directory.join("ipython").into());
    set("MPLCONFIGDIR", directory.join("matplotlib").into());
    set("JUPYTER_RUNTIME_DIR", directory.join("runtime").into());
    set("JUPYTER_DATA_DIR", directory.join("home/.local/share/jupyter").into());
    set("JUPYTER_CONFIG_DIR", directory.join("home/.jupyter").into());
    set("JUPYTER_PATH", directory.join("share/jupyter").into());
    set("JUPYTER_PLATFORM_DIRS", "1".into());
    set("PYDEVD_DISABLE_FILE_VALIDATION", "1".into());
    for (name, value) in &plan.request.env {
        set(name, value.into());
    }
    set("CELLGATE_TOKEN_STDIN", "1".into());
    set("CELLGATE_IP", "127.0.0.1".into());
    set("CELLGATE_BASE_URL", plan.base_url.clone().into());
    set("CELLGATE_ROOT_DIR", workspace.into());
    set("CELLGATE_DIRECTORY", directory.path().into());
    if let Some(idle) = plan.idle {
        set("CELLGATE_IDLE_SECONDS", idle.as_secs_f64().to_string().into());
    }
    if let Some(expiry) = plan.expires_at {
        set("CELLGATE_EXPIRES_AT", expiry.as_second().to_string().into());
    }
    set(marks::SANDBOX, plan.id.as_str().into());
    set(marks::INSTANCE, plan.instance.clone().into());
    variables
}

/// A sandbox has a home of its own, where pip would not find the settings that reach its registry.
fn pip_settings() -> Option<OsString> {
    if std::env::var_os("PIP_CONFIG_FILE").is_some() {
        return None;
    }
    let home = PathBuf::from(std::env::var_os("HOME")?);
    PIP_SETTINGS.iter().map(|file| home.join(file)).find(|file| file.is_file()).map(PathBuf::into_os_string)
}

fn is_allowed(name: &str) -> bool {
    !NEVER.contains(&name)
        && ALLOWED.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == *allowed,
        })
}

/// The sandbox's programs first, then the shared environment's, then the machine's.
fn path(directory: &Directory, environment: &Environment) -> OsString {
    let machine = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut folders = vec![directory.join("venv/bin"), environment.folder.join("bin")];
    folders.extend(std::env::split_paths(&machine));
    // A folder with a ':' in its name can't stand in a PATH; the machine's alone still works.
    std::env::join_paths(folders).unwrap_or(machine)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn secrets_of_the_gateway_stay_with_it() {
        for name in
            ["CELLGATE_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH", "PIP_TARGET"]
        {
            assert!(!is_allowed(name), "{name}");
        }
        assert!(is_allowed("LC_ALL") && is_allowed("PIP_CERT") && is_allowed("TZ"));
    }
}
