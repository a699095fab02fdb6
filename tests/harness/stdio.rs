//! An MCP client over a gateway's standard streams.

use std::path::{Path, PathBuf};
use std::process::Stdio as Streams;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::gateway::Start;
use super::reply::Reply;

/// A gateway that speaks over its standard streams.
pub(crate) struct Stdio {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    next: u64,
    data: PathBuf,
    /// Its own data directory, if it has one.
    directory: Option<TempDir>,
}

impl Stdio {
    /// Starts `cellgate stdio` on a data directory of its own.
    pub(crate) async fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let mut stdio = Self::start_in(directory.path()).await;
        stdio.directory = Some(directory);
        stdio
    }

    /// Starts `cellgate stdio`, with its logs as loud as they get, and initializes.
    pub(crate) async fn start_in(data: &Path) -> Self {
        let data = data.to_owned();
        let mut command = Command::from(Start::default().data(&data).env("RUST_LOG", "trace").command("stdio"));
        command.stdin(Streams::piped()).stdout(Streams::piped()).stderr(Streams::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("the gateway starts");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut stdio = Self { input: child.stdin.take(), output, child, next: 1, data, directory: None };
        let client = json!({"name": "cellgate-tests", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let hello = stdio.request("initialize", params).await;
        assert!(hello["result"]["capabilities"]["tools"].is_object(), "{hello}");
        stdio.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        stdio
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Calls a tool and waits for its checked answer.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        Reply::new(tool, self.request("tools/call", json!({"name": tool, "arguments": arguments})).await)
    }

    /// Sends a request and answers the message that came back. Every line before it has to be JSON-RPC too.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let answer = async {
            loop {
                let line = self.output.next_line().await.expect("standard output reads").expect("it goes on");
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON-RPC: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "not JSON-RPC: {line}");
                if message["id"] == id {
                    return message;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(900), answer).await.expect("an answer in time")
    }

    /// Ends it at once.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.expect("it can be killed");
    }

    /// Closes standard input and waits for the end that it should bring.
    pub(crate) async fn close(&mut self) {
        drop(self.input.take());
        let ended = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await;
        ended.expect("it ends with its input").expect("its end is seen");
    }

    async fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("not closed");
        input.write_all(format!("{message}\n").as_bytes()).await.expect("standard input takes a line");
        input.flush().await.expect("standard input takes a line");
    }
}
