//! A handle on one Jupyter server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use super::rest::{Rest, Route};
use super::{JupyterError, Kernel};

/// One Jupyter server; cheap to clone, and all clones share their kernels' queues and sockets.
#[derive(Clone)]
pub struct Server {
    pub(super) rest: Rest,
    kernels: Arc<Mutex<HashMap<String, Arc<Kernel>>>>,
}

impl Server {
    /// The server at an `http` or `https` address, with or without a path prefix.
    ///
    /// A `token=` in the address is used when no other token is given, and is never kept in it.
    pub fn new(base_url: &str, token: Option<SecretString>) -> Result<Self, JupyterError> {
        Self::by(base_url, token, Route::Usual)
    }

    /// That of a sandbox which was launched here: whatever proxy there is, it is reached without.
    ///
    /// # Errors
    /// As for `new`.
    pub fn of_sandbox(base_url: &str, token: SecretString) -> Result<Self, JupyterError> {
        Self::by(base_url, Some(token), Route::Direct)
    }

    /// The same, connecting only to those addresses, whatever its name comes to mean, when there are any.
    pub fn at(
        base_url: &str,
        token: Option<SecretString>,
        addresses: Option<Vec<IpAddr>>,
    ) -> Result<Self, JupyterError> {
        Self::by(base_url, token, addresses.map_or(Route::Usual, Route::Pinned))
    }

    fn by(base_url: &str, token: Option<SecretString>, route: Route) -> Result<Self, JupyterError> {
        let (base, in_url) = base(base_url)?;
        Ok(Self { rest: Rest::new(base, token.or(in_url), route)?, kernels: Arc::default() })
    }

    /// Where it is; the path ends in `/`.
    pub fn base_url(&self) -> &Url {
        self.rest.base()
    }

    /// The name that it goes by as a sandbox: `host:port`.
    pub fn name(&self) -> String {
        let url = self.base_url();
        format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
    }

    /// What callers have to show it.
    pub fn token(&self) -> Option<&SecretString> {
        self.rest.token()
    }

    /// Its version; needs no token.
    pub async fn version(&self) -> Result<String, JupyterError> {
        let answer = self.rest.json(self.rest.call(Method::GET, [])).await;
        let answer: Value = answer.map_err(|error| self.no_api(error))?;
        let version = answer.get("version").and_then(Value::as_str);
        version.map(str::to_owned).ok_or_else(|| self.rest.not_jupyter("it tells no version"))
    }

    /// What it is doing; tells whether the token is right.
    pub async fn status(&self) -> Result<Value, JupyterError> {
        let call = self.rest.call(Method::GET, ["status"]).query("no_track_activity", "1");
        self.rest.json(call).await.map_err(|error| self.no_api(error))
    }

    /// Tells it that it is being used: it counts neither `api` nor `api/status` as activity.
    pub async fn touch(&self) -> Result<(), JupyterError> {
        self.rest.done(self.rest.call(Method::GET, ["me"])).await
    }

    /// The kernel of that id, with its queue; connects when something runs.
    pub fn kernel(&self, id: &str) -> Arc<Kernel> {
        let kernel = || Arc::new(Kernel::new(self.rest.clone(), id));
        Arc::clone(self.known_kernels().entry(id.to_owned()).or_insert_with(kernel))
    }

    /// Whether there is a connection to that kernel from here.
    pub fn is_connected(&self, kernel: &str) -> bool {
        self.known_kernels().get(kernel).is_some_and(|kernel| kernel.is_connected())
    }

    /// Lets go of a kernel that ended; runs that wait for it end by themselves.
    pub fn forget_kernel(&self, id: &str) {
        self.known_kernels().remove(id);
    }

    /// How many runs wait, for each kernel that is known here.
    pub fn queue_lengths(&self) -> Vec<usize> {
        self.known_kernels().values().map(|kernel| kernel.queue_length()).collect()
    }

    /// What every Jupyter server has is missing.
    fn no_api(&self, error: JupyterError) -> JupyterError {
        match error {
            JupyterError::NotFound { .. } => self.rest.not_jupyter("HTTP 404"),
            error => error,
        }
    }

    fn known_kernels(&self) -> MutexGuard<'_, HashMap<String, Arc<Kernel>>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("base_url", &self.base_url().as_str()).finish_non_exhaustive()
    }
}

/// The base URL, and the token that was in the text.
fn base(text: &str) -> Result<(Url, Option<SecretString>), JupyterError> {
    let invalid =
        |why: &str| JupyterError::InvalidUrl(format!("The server's URL {why}: give one like http://localhost:8888/."));
    let mut url = Url::parse(text.trim()).map_err(|error| invalid(&format!("can't be read ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("has to start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not hold a user name or a password; Jupyter takes a token"));
    }
    let token = url.query_pairs().find(|(key, value)| key == "token" && !value.is_empty());
    let token = token.map(|(_, value)| SecretString::from(value.into_owned()));
    url.set_query(None);
    url.set_fragment(None);
    let path = base_path(url.path());
    url.set_path(&path);
    Ok((url, token))
}

/// The path prefix between slashes. A page that Jupyter prints for browsers (`…/lab`) is no part of it.
fn base_path(path: &str) -> String {
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if !path.ends_with('/') && matches!(names.last(), Some(&("lab" | "tree"))) {
        names.pop();
    }
    names.iter().fold("/".to_owned(), |path, name| path + name + "/")
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn read(text: &str) -> (String, Option<String>) {
        let (url, token) = base(text).unwrap();
        (url.to_string(), token.map(|token| token.expose_secret().to_owned()))
    }

    #[test]
    fn a_prefix_counts_with_and_without_its_last_slash() {
        for text in ["http://h:1/pre/fix", "http://h:1/pre/fix/", "http://h:1//pre//fix//", " http://h:1/pre/fix/lab "]
        {
            assert_eq!(read(text).0, "http://h:1/pre/fix/", "{text}");
        }
        assert_eq!(read("http://h:1").0, "http://h:1/");
        assert_eq!(read("http://h:1/lab/").0, "http://h:1/lab/");
        assert_eq!(read("http://[::1]:8888/a").0, "http://[::1]:8888/a/");
    }

    #[test]
    fn a_token_leaves_the_url() {
        assert_eq!(read("http://h:1/lab?token=abc&x=1#top"), ("http://h:1/".to_owned(), Some("abc".to_owned())));
        assert_eq!(read("http://h:1/?token="), ("http://h:1/".to_owned(), None));
    }

    #[test]
    fn other_urls_are_refused_without_repeating_them() {
        for text in [
            "ftp://h/",
            "localhost:8888",
            "h:1/x",
            "",
            "http://",
            "http://u:secret@h/",
            "file:///etc/passwd",
            "http://h:99999/?token=secret",
        ] {
            let error = base(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn names_cannot_climb_out_of_the_prefix() {
        let rest = || {
            let _ = rustls::crypto::ring::default_provider().install_default();
            Server::new("http://h:1/pre", None).unwrap().rest
        };
        let url = rest().url(["api", "contents", "a b", "..", "é?#%2e%2e", "x\\y"]);
        assert_eq!(url.as_str(), "http://h:1/pre/api/contents/a%20b/%C3%A9%3F%23%252e%252e/x%5Cy");
    }
}
