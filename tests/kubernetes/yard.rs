//! A gateway that launches pods in a namespace of its own, and what the cluster has there.

use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::harness::Berth;

/// Held for reading by whoever uses the API server, for writing by who stops it.
pub(crate) static API: RwLock<()> = RwLock::const_new(());

/// Runs kubectl, which has to succeed; what it printed.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    let (printed, ok) = tried(arguments);
    assert!(ok, "kubectl {arguments:?} failed: {printed}");
    printed
}

/// Runs kubectl; what it printed, and whether it succeeded.
pub(crate) fn tried(arguments: &[&str]) -> (String, bool) {
    let ran = command().args(arguments).output().expect("kubectl runs");
    let text = if ran.status.success() { ran.stdout } else { [ran.stdout, ran.stderr].concat() };
    (String::from_utf8_lossy(&text).trim().to_owned(), ran.status.success())
}

/// Makes an object.
pub(crate) fn apply(object: &Value) {
    let mut apply =
        command().args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    apply.stdin.take().expect("piped").write_all(object.to_string().as_bytes()).expect("it reads");
    assert!(apply.wait().expect("it ends").success(), "{object}");
}

fn command() -> Command {
    let words = std::env::var("CELLGATE_TEST_KUBECTL").expect("tests/run kubernetes says how kubectl is called");
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// A namespace under Pod Security "restricted", with storage for a few claims.
pub(crate) struct Namespace {
    pub(crate) name: String,
    storage: TempDir,
}

impl Namespace {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-test-{}-{number}", std::process::id());
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}));
        let namespace = Self { name, storage: TempDir::new().expect("a directory") };
        for volume in 0..3 {
            namespace.add_volume(volume);
        }
        namespace
    }

    /// A volume that one of its claims can be bound to.
    fn add_volume(&self, number: usize) {
        let folder = self.storage.path().join(number.to_string());
        std::fs::create_dir(&folder).expect("a folder");
        // The kubelet changes no owner there: any user of group 0 writes in it.
        let opened = Command::new("chmod").arg("2775").arg(&folder).status().expect("chmod runs");
        assert!(opened.success());
        std::fs::set_permissions(self.storage.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("open");
        apply(&json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("{}-{number}", self.name), "labels": {"cellgate-test": self.name}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": folder},
            },
        }));
    }

    /// The names of the objects of a kind that belong to sandboxes.
    pub(crate) fn objects(&self, kind: &str) -> Vec<String> {
        let selector = "app.kubernetes.io/managed-by=cellgate";
        let printed = kubectl(&["-n", &self.name, "get", kind, "-l", selector, "-o", "name"]);
        printed.lines().map(str::to_owned).collect()
    }

    /// What is there of sandboxes: all but their files.
    pub(crate) fn left(&self) -> Vec<String> {
        self.objects("pods,configmaps,secrets")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        tried(&["delete", "namespace", &self.name, "--wait=false"]);
        tried(&["delete", "persistentvolumes", "-l", &format!("cellgate-test={}", self.name), "--wait=false"]);
    }
}

/// A gateway that launches pods.
pub(crate) struct Yard {
    berth: Berth,
    pub(crate) namespace: Namespace,
    _api: Option<RwLockReadGuard<'static, ()>>,
}

impl Deref for Yard {
    type Target = Berth;

    fn deref(&self) -> &Berth {
        &self.berth
    }
}

impl DerefMut for Yard {
    fn deref_mut(&mut self) -> &mut Berth {
        &mut self.berth
    }
}

impl Yard {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With more arguments.
    pub(crate) async fn with(arguments: &[&str]) -> Self {
        let api = API.read().await;
        Self { _api: Some(api), ..Self::unguarded(arguments).await }
    }

    /// For a test that stops the API server itself.
    pub(crate) async fn unguarded(arguments: &[&str]) -> Self {
        let namespace = Namespace::new();
        let berth = Berth::start(&[&own_arguments(&namespace.name)[..], arguments].concat()).await;
        Self { berth, namespace, _api: None }
    }

    /// With a sandbox named `box`.
    pub(crate) async fn with_box() -> Self {
        let yard = Self::start().await;
        yard.launch("box").await;
        yard
    }

    /// The pod of a sandbox.
    pub(crate) async fn pod(&self, name: &str) -> String {
        format!("cellgate-{}", self.record(name).await["id"].as_str().expect("an id"))
    }

    /// Runs kubectl in its namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(&[&["-n", &self.namespace.name], arguments].concat())
    }

    /// What the list says of `box` and what the cluster has agree, sooner or later; the status.
    pub(crate) async fn truth(&self, case: &str) -> String {
        let exists = |record: &Value| {
            let own = format!("pod/cellgate-{}", record["id"].as_str().unwrap_or_default());
            self.namespace.objects("pods") == [own]
        };
        self.berth.truth(case, exists, || self.namespace.left().is_empty()).await
    }
}

/// With what a gateway is started that launches pods in a namespace.
pub(crate) fn own_arguments(namespace: &str) -> [&str; 8] {
    let (class, size) = (["--storage-class", namespace], ["--storage-size", "1Gi"]);
    let variant = ["--variant", "kubernetes"];
    [variant[0], variant[1], "--kubernetes-namespace", namespace, class[0], class[1], size[0], size[1]]
}
