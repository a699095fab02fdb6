//! The engine goes away and comes back.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::dock::{Dock, ENGINE, tried};
use crate::harness::{SOON, eventually, http, not_run, signal};

/// The engine that `tests/run` started for this suite: how to start it again, and where its process id is.
struct OwnEngine {
    pid_file: PathBuf,
    command: Vec<String>,
}

impl OwnEngine {
    fn of_this_suite() -> Option<Self> {
        let pid_file = PathBuf::from(std::env::var_os("CELLGATE_TEST_ENGINE_PID_FILE")?);
        let command = std::env::var("CELLGATE_TEST_ENGINE_COMMAND").ok()?;
        Some(Self { pid_file, command: command.split(' ').map(str::to_owned).collect() })
    }

    async fn stop(&self) {
        let pid = std::fs::read_to_string(&self.pid_file).expect("its pid file is there");
        signal(pid.trim().parse().expect("a number"), "TERM");
        eventually("the engine stops", Duration::from_secs(60), || !self.pid_file.exists()).await;
    }

    async fn start(&self) {
        let log = std::fs::File::options().append(true).create(true).open(self.pid_file.with_extension("log"));
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut engine = command.stderr(log.expect("its log opens")).spawn().expect("it starts");
        // Whoever ends it, it is waited for.
        std::thread::spawn(move || engine.wait());
        eventually("the engine answers", Duration::from_secs(60), || tried(&["info"]).1).await;
    }
}

#[tokio::test]
async fn an_engine_that_is_restarted_ends_sandboxes_and_the_gateway_says_so_and_goes_on() {
    let Some(engine) = OwnEngine::of_this_suite() else {
        return not_run("engine restart", "the engine that runs here is not this suite's own");
    };
    let _alone = ENGINE.write().await;
    let mut dock = Dock::unguarded(&[]).await;
    dock.launch("box").await;
    dock.run("box", "open('kept.txt', 'w').write('kept')").await;
    engine.stop().await;
    let ready = format!("{}/readyz", dock.gateway().origin());
    let until = tokio::time::Instant::now() + SOON;
    while http().get(&ready).send().await.expect("it answers").status().is_success() {
        assert!(tokio::time::Instant::now() < until, "it is not ready without an engine");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let refused = dock.client.call("launch_sandbox", json!({"sandbox_name": "other"})).await;
    refused.refused(&["provider.unavailable"]);
    // Another gateway starts meanwhile: it can't tell what became of the sandbox, and forgets nothing.
    dock.kill_and_restart().await;
    assert_eq!(dock.record("box").await["status"], "running");
    engine.start().await;
    let record = dock.becomes("box", "lost").await;
    let reason = record["status_reason"].to_string();
    assert!(reason.contains("stopped") || reason.contains("killed"), "{record}");
    dock.launch("box").await;
    assert!(dock.run("box", "print(open('kept.txt').read())").await.contains("kept"));
    let ready = format!("{}/readyz", dock.gateway().origin());
    let until = tokio::time::Instant::now() + SOON;
    while !http().get(&ready).send().await.expect("it answers").status().is_success() {
        assert!(tokio::time::Instant::now() < until, "it is ready again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
