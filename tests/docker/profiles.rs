//! What an operator lets callers choose.

use serde_json::json;
use tempfile::TempDir;

use crate::dock::{Dock, docker};

const CONFIGURATION: &str = r#"
[environments.default]
memory = "1Gi"

[environments.sealed]
egress = "none"
memory = "512Mi"
cpu = 0.5
pids = 100

[environments.fast]
runtime = "no-such-runtime"

[environments.large]
disk = "10Gi"

[environments.gpu]
gpu = "1"
"#;

async fn configured() -> (Dock, TempDir) {
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("cellgate.toml");
    std::fs::write(&file, CONFIGURATION).expect("it is written");
    (Dock::with(&["--config", &file.to_string_lossy()]).await, folder)
}

#[tokio::test]
async fn a_caller_chooses_an_environment_and_gets_its_limits() {
    let (dock, _folder) = configured().await;
    let launched = dock.launch_with(json!({"sandbox_name": "box", "environment": "sealed"})).await.ok();
    assert_eq!(launched.get("sandbox")["environment"], "sealed");
    let format = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}}";
    assert_eq!(docker(&["inspect", "--format", format, &dock.container("box").await]), "536870912 500000000 100");
    let more = dock.launch_with(json!({"sandbox_name": "more", "environment": "sealed", "memory": "1Gi"})).await;
    more.refused(&["arguments.invalid"]).says("512Mi");
    let unknown = dock.launch_with(json!({"sandbox_name": "more", "environment": "nope"})).await;
    unknown.refused(&["arguments.invalid"]).says("sealed");
}

#[tokio::test]
async fn a_wish_that_the_engine_can_not_keep_is_refused_by_name() {
    let (dock, _folder) = configured().await;
    for (environment, words) in [("fast", "no-such-runtime"), ("large", "disk"), ("gpu", "gpu")] {
        let refused = dock.launch_with(json!({"sandbox_name": "box", "environment": environment})).await;
        refused.refused(&["provider.unsupported"]).says(words);
        assert!(dock.containers().is_empty() && dock.volumes().is_empty(), "{environment}");
    }
    let none = dock.launch_with(json!({"sandbox_name": "box", "gpu": "1"})).await;
    none.refused(&["provider.unsupported"]).says("no GPU");
}

#[tokio::test]
async fn the_scientific_image_has_what_it_promises() {
    let dock = Dock::start().await;
    dock.launch_with(json!({"sandbox_name": "box", "environment": "scientific"})).await.ok();
    let code = "import polars, pyarrow, scipy, sklearn.linear_model as models\n\
                print(models.LinearRegression().fit([[1], [2]], [2, 4]).predict([[3]]).round(3))";
    assert!(dock.run("box", code).await.contains("[6.]"));
}
