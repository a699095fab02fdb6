//! What code in a pod finds around it. The namespace itself refuses what Pod Security "restricted" doesn't allow.

use serde_json::{Value, json};

use crate::yard::Yard;

const LOOK: &str = "
import json, os
def status(name):
    return next(line.split()[1] for line in open('/proc/self/status') if line.startswith(name))
def written(path):
    try:
        open(os.path.join(path, 'probe'), 'w').close()
        return True
    except OSError:
        return False
print(json.dumps({
    'uid': os.getuid(), 'gid': os.getgid(), 'capabilities': status('CapEff'), 'no_new_privileges': status('NoNewPrivs'),
    'written': {path: written(path) for path in ['/', '/opt/venv', '/home/sandbox', '/workspace', '/tmp']},
    'account': os.path.exists('/var/run/secrets/kubernetes.io'),
    'token': 'JUPYTER_TOKEN' in os.environ,
}))
";

#[tokio::test]
async fn code_has_no_rights_and_writes_only_where_it_should() {
    let yard = Yard::with_box().await;
    let printed = yard.run("box", LOOK).await;
    let found: Value = serde_json::from_str(printed.lines().next().expect("a line")).expect("JSON");
    assert_eq!((found["uid"].as_i64(), found["gid"].as_i64()), (Some(1000), Some(0)));
    assert_eq!(found["capabilities"].as_str().expect("text").trim_matches('0'), "", "{found}");
    assert_eq!(found["no_new_privileges"], "1");
    let written = json!({"/": false, "/opt/venv": false, "/home/sandbox": true, "/workspace": true, "/tmp": true});
    assert_eq!(found["written"], written);
    assert_eq!((&found["account"], &found["token"]), (&json!(false), &json!(false)));
}

#[tokio::test]
async fn no_secret_is_in_a_record_and_the_gateway_reads_none() {
    let yard = Yard::start().await;
    let env = json!({"API_KEY": "hush-hush", "NUMBA_NUM_THREADS": "7"});
    let launched = yard.launch_with(json!({"sandbox_name": "box", "cpu": 0.5, "env": env})).await.ok();
    // Libraries are told of their share of the cores, unless the caller decided.
    let cores = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['NUMBA_NUM_THREADS'], os.cpu_count())";
    assert_eq!(yard.run("box", cores).await.trim(), "1 7 1");
    assert!(yard.run("box", "import os; print(os.environ['API_KEY'])").await.contains("hush-hush"));
    let id = launched.get("sandbox")["id"].as_str().expect("an id").to_owned();
    let token = crate::harness::sandbox_token(yard.data(), &id);
    let shown = yard.kubectl(&["get", "pods,configmaps", "-o", "json"]) + &yard.gateway().log();
    assert!(!shown.contains("hush-hush") && !shown.contains(&token), "{shown}");
}
