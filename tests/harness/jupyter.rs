//! A Jupyter server that the gateway did not start, and whose token the test knows.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::processes::{marked, signal};

/// The token of the foreign server.
const TOKEN: &str = "foreign-token-7c1e";

/// A person's own Jupyter server.
pub(crate) struct ForeignJupyter {
    child: Child,
    http: reqwest::Client,
    url: String,
    token: &'static str,
    root: TempDir,
}

impl ForeignJupyter {
    /// Starts one with the Python of a sandbox that runs in `data`.
    pub(crate) async fn start(data: &Path) -> Self {
        Self::start_at(data, "127.0.0.1", |program| Command::new(program)).await
    }

    /// Starts one that listens on an address, with a command that runs a program where that is.
    pub(crate) async fn start_at(data: &Path, address: &str, command: impl Fn(&Path) -> Command) -> Self {
        let python = marked(data)
            .into_iter()
            .find(|process| process.command.contains("jupyter"))
            .expect("a sandbox runs")
            .program;
        let root = TempDir::new().expect("a temporary directory");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let child = command(Path::new(&python))
            .args(["-m", "jupyter_server", "--allow-root", "--no-browser", "--ServerApp.base_url=/their/own"])
            .arg(format!("--ServerApp.ip={address}"))
            .arg(format!("--ServerApp.port={port}"))
            .arg(format!("--IdentityProvider.token={TOKEN}"))
            .arg(format!("--ServerApp.root_dir={}", root.path().display()))
            .env("HOME", root.path())
            .env("JUPYTER_RUNTIME_DIR", root.path().join(".runtime"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let server = Self { child, http, url: format!("http://{address}:{port}/their/own"), token: TOKEN, root };
        let started = Instant::now();
        while !server
            .request(reqwest::Method::GET, "api/status")
            .await
            .is_some_and(|response| response.status().is_success())
        {
            assert!(started.elapsed() < Duration::from_secs(30), "the foreign server does not get ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    /// Its address, without a final slash.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// `host:port`, the name its sandbox has.
    pub(crate) fn name(&self) -> &str {
        self.url.trim_start_matches("http://").split('/').next().unwrap_or_default()
    }

    /// Its token.
    pub(crate) fn token(&self) -> &str {
        self.token
    }

    /// Its files.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Its kernels.
    pub(crate) async fn kernels(&self) -> Vec<Value> {
        let response = self.request(reqwest::Method::GET, "api/kernels").await.expect("it answers");
        response.json().await.expect("kernels")
    }

    /// Deletes a kernel, as a person does in the browser.
    pub(crate) async fn delete_kernel(&self, id: &str) {
        let response = self.request(reqwest::Method::DELETE, &format!("api/kernels/{id}")).await.expect("it answers");
        assert!(response.status().is_success(), "{}", response.status());
    }

    /// Whether it still answers.
    pub(crate) async fn is_up(&self) -> bool {
        self.request(reqwest::Method::GET, "api/status").await.is_some()
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    async fn request(&self, method: reqwest::Method, path: &str) -> Option<reqwest::Response> {
        let request = self
            .http
            .request(method, format!("{}/{path}", self.url))
            .header("authorization", format!("token {}", self.token));
        request.send().await.ok()
    }
}

impl Drop for ForeignJupyter {
    fn drop(&mut self) {
        // On SIGTERM it ends its kernels too.
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            signal(pid, "TERM");
            let _ = self.child.wait();
        }
    }
}
