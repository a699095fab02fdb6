//! A place to work: a client on the shared gateway, with a folder of its own in the shared sandbox.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::client::{Client, Era};
use super::files::{case, read_json};
use super::gateway::Gateway;
use super::reply::Reply;

/// The sandbox that tests share.
const SANDBOX: &str = "shared";

/// The gateway that tests share; those that break things start their own.
pub(crate) fn shared() -> &'static Gateway {
    static SHARED: OnceLock<Gateway> = OnceLock::new();
    SHARED.get_or_init(Gateway::start)
}

/// A client with a folder of its own.
pub(crate) struct Desk {
    /// The client; its session's notebooks are its own.
    pub(crate) client: Client,
    folder: String,
}

impl Desk {
    /// A desk for a client of the older era.
    pub(crate) async fn new() -> Self {
        Self::of(Era::Legacy).await
    }

    /// A desk for a client of that era.
    pub(crate) async fn of(era: Era) -> Self {
        static LAUNCHED: OnceCell<()> = OnceCell::const_new();
        static DESKS: AtomicUsize = AtomicUsize::new(0);
        let number = DESKS.fetch_add(1, Ordering::Relaxed);
        let client = Client::connect_as(shared().url(), era, &format!("desk-{number}"), None).await;
        LAUNCHED
            .get_or_init(|| async {
                // The first launch on a machine builds the Python environment.
                let launched =
                    client.call_within(Duration::from_secs(900), "launch_sandbox", json!({"sandbox_name": SANDBOX}));
                launched.await.ok();
            })
            .await;
        client.call("use_sandbox", json!({"sandbox_name": SANDBOX})).await.ok();
        let desk = Self { client, folder: format!("desk-{number}") };
        std::fs::create_dir_all(desk.path("")).expect("the sandbox's folder is there");
        desk
    }

    /// The desk's folder, from the sandbox's root.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// Where a file of this desk is on disk.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        shared().files(SANDBOX).join(&self.folder).join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("the file is written");
    }

    /// A notebook of this desk, as it is on disk.
    pub(crate) fn read(&self, name: &str) -> Value {
        read_json(&self.path(name))
    }

    /// Opens one of the cases as notebook `nb`, from a fresh copy.
    pub(crate) async fn open_case(&self, name: &str) -> PathBuf {
        self.open_copy(&case(name), "nb").await
    }

    /// Opens a copy of a file under a notebook name.
    pub(crate) async fn open_copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.path(&format!("{name}.ipynb"));
        std::fs::copy(from, &to).expect("the case is copied");
        self.open(name).await.ok();
        to
    }

    /// Opens `<name>.ipynb` of this desk as notebook `name`.
    pub(crate) async fn open(&self, name: &str) -> Reply {
        let path = format!("{}/{name}.ipynb", self.folder);
        self.client.call("use_notebook", json!({"notebook_name": name, "notebook_path": path})).await
    }

    /// Creates an empty notebook, current from now on, and says where it is on disk.
    pub(crate) async fn create(&self, name: &str) -> PathBuf {
        let path = format!("{}/{name}.ipynb", self.folder);
        let arguments = json!({"notebook_name": name, "notebook_path": path, "mode": "create"});
        self.client.call("use_notebook", arguments).await.ok();
        self.path(&format!("{name}.ipynb"))
    }

    /// Calls a tool, which has to succeed.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> Reply {
        self.client.call(tool, arguments).await.ok()
    }

    /// Calls a tool, which has to fail with one of these codes.
    pub(crate) async fn refused(&self, codes: &[&str], tool: &str, arguments: Value) -> Reply {
        self.client.call(tool, arguments).await.refused(codes)
    }
}
