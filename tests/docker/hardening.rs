//! What code in a sandbox finds around it.

use serde_json::{Value, json};

use crate::dock::{Dock, docker};

const LOOK: &str = r"
import json, os, subprocess, socket
def status(name):
    return next(line.split()[1] for line in open('/proc/self/status') if line.startswith(name))
def written(path):
    try:
        open(os.path.join(path, 'probe'), 'w').close()
        return True
    except OSError:
        return False
def allowed(call):
    try:
        call()
        return True
    except OSError:
        return False
mounts = [line.split() for line in open('/proc/mounts')]
print(json.dumps({
    'uid': os.getuid(), 'gid': os.getgid(),
    'capabilities': status('CapEff') + status('CapPrm') + status('CapBnd'),
    'no_new_privileges': status('NoNewPrivs'), 'seccomp': status('Seccomp'),
    'written': {path: written(path) for path in ['/', '/etc', '/opt/venv', '/usr', '/root', '/home/sandbox', '/workspace', '/tmp']},
    'tmp': next(mount[3] for mount in mounts if mount[1] == '/tmp'),
    'socket': os.path.exists('/var/run/docker.sock'),
    'raw': allowed(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
    'mount': subprocess.run(['mount', '-t', 'tmpfs', 'x', '/tmp'], capture_output=True).returncode == 0,
    'rules': subprocess.run(['/usr/sbin/nft', 'flush', 'ruleset'], capture_output=True).returncode == 0,
    'set_uid': [path for path in ['/usr/bin/sudo', '/usr/bin/gcc', '/usr/bin/cc'] if os.path.exists(path)],
    'first': open('/proc/1/cmdline').read().split('\0')[0],
    'hosts_processes': len([name for name in os.listdir('/proc') if name.isdigit()]),
}))
";

#[tokio::test]
async fn code_has_no_rights_and_writes_only_where_it_should() {
    let dock = Dock::with_box().await;
    let printed = dock.run("box", LOOK).await;
    let found: Value = serde_json::from_str(printed.lines().next().expect("a line")).expect("JSON");
    assert_eq!((found["uid"].as_i64(), found["gid"].as_i64()), (Some(1000), Some(0)));
    assert_eq!(found["capabilities"].as_str().expect("text").trim_matches('0'), "", "{found}");
    assert_eq!((&found["no_new_privileges"], &found["seccomp"]), (&json!("1"), &json!("2")));
    let written = json!({
        "/": false, "/etc": false, "/opt/venv": false, "/usr": false, "/root": false,
        "/home/sandbox": true, "/workspace": true, "/tmp": true
    });
    assert_eq!(found["written"], written);
    for option in ["noexec", "nosuid", "nodev"] {
        assert!(found["tmp"].as_str().expect("text").contains(option), "{found}");
    }
    for no in ["socket", "raw", "mount", "rules"] {
        assert_eq!(found[no], false, "{no}: {found}");
    }
    assert_eq!(found["set_uid"], json!([]));
    assert_eq!(found["first"], "tini");
    assert!(found["hosts_processes"].as_u64().expect("a number") < 10, "{found}");
}

#[tokio::test]
async fn limits_hold() {
    let dock = Dock::start().await;
    let env = json!({"NUMBA_NUM_THREADS": "7"});
    dock.launch_with(json!({"sandbox_name": "box", "memory": "512Mi", "cpu": 0.5, "env": env})).await.ok();
    // Libraries are told of the share, unless the caller decided.
    let cores = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['NUMBA_NUM_THREADS'], os.cpu_count())";
    assert_eq!(dock.run("box", cores).await.trim(), "1 7 1");
    let printed = docker(&[
        "inspect",
        "--format",
        "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}}",
        &dock.container("box").await,
    ]);
    assert_eq!(printed, "536870912 536870912 500000000 512");
    let code = "import subprocess\nheld = []\ntry:\n  for _ in range(600): held.append(subprocess.Popen(['sleep', '60']))\n\
                except OSError as error: print('stopped at', len(held), error)\nfinally:\n  for one in held: one.kill()";
    let printed = dock.run("box", code).await;
    assert!(printed.contains("stopped at"), "{printed}");
}

#[tokio::test]
async fn no_secret_is_in_what_the_engine_shows_or_a_kernel_sees() {
    let dock = Dock::start().await;
    let launched = dock.launch_with(json!({"sandbox_name": "box", "env": {"API_KEY": "hush-hush"}})).await.ok();
    let id = launched.get("sandbox")["id"].as_str().expect("an id").to_owned();
    assert!(dock.run("box", "import os; print(os.environ['API_KEY'])").await.contains("hush-hush"));
    let token = crate::harness::sandbox_token(dock.data(), &id);
    let container = dock.container("box").await;
    let read = "import glob\nfor path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n  \
                try: print(open(path, errors='replace').read())\n  except OSError: pass";
    let seen = dock.run("box", read).await;
    let shown = [docker(&["inspect", &container]), docker(&["logs", &container]), dock.gateway().log()].concat();
    assert!(!shown.contains("hush-hush") && !shown.contains(&token), "{shown}");
    assert!(!seen.contains(&token) && seen.contains("CELLGATE_SANDBOX"), "{seen}");
    let binding = docker(&[
        "inspect",
        "--format",
        "{{(index (index .NetworkSettings.Ports \"8888/tcp\") 0).HostIp}}",
        &container,
    ]);
    assert_eq!(binding, "127.0.0.1");
}

#[tokio::test]
async fn what_is_installed_stays_in_the_sandbox() {
    let dock = Dock::with_box().await;
    dock.launch("other").await;
    let installed = dock.run("box", "%pip install -q tabulate\nimport tabulate; print(tabulate.__file__)").await;
    assert!(installed.contains("/home/sandbox/"), "{installed}");
    let ran = dock.run("other", "import importlib.util; print(importlib.util.find_spec('tabulate'))").await;
    assert!(ran.contains("None"), "{ran}");
    dock.terminate("box").await;
    dock.launch("box").await;
    let ran = dock.run("box", "import importlib.util; print(importlib.util.find_spec('tabulate'))").await;
    assert!(ran.contains("None"), "{ran}");
}
