//! What a start makes of what a killed gateway left, when that can't be told at once, or not at all.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Process, Start, eventually, marked};

const LAUNCH: Duration = Duration::from_secs(900);

async fn launch(client: &Client, name: &str) -> Value {
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": name})).await.ok().get("sandbox").clone()
}

#[tokio::test]
async fn what_no_record_tells_of_is_left_alone_logged_and_counted() {
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    launch(&client, "known").await;
    let id = launch(&client, "unknown").await["id"].as_str().expect("an id").to_owned();
    gateway.kill();
    let records = rusqlite::Connection::open(data.path().join("cellgate.db")).expect("the records");
    records.execute("DELETE FROM sandboxes WHERE id = ?1", [&id]).expect("its record is lost");
    drop(records);
    let next = Start::default().data(data.path()).serve();
    let client = client.at(next.url());
    client.call("execute_code", json!({"code": "1", "sandbox_name": "known"})).await.ok();
    eventually("it is logged", Duration::from_secs(10), || next.log().contains(&id)).await;
    let metrics = crate::harness::http()
        .get(format!("{}/metrics", next.origin()))
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("text");
    assert!(metrics.contains("cellgate_unclear_total 1"), "{metrics}");
    assert!(next.end_by("TERM").await.success());
    let left = marked(data.path());
    assert!(left.iter().any(|process| process.command.contains(&id)), "{left:?}");
    assert!(left.iter().all(|process| !process.command.contains("known")), "{left:?}");
    left.iter().for_each(Process::kill);
}

/// Makes the record of the only sandbox tell of another process.
fn replace_process(data: &TempDir, pid: u32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let started: u64 = fields.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).expect("its start");
    let records = rusqlite::Connection::open(data.path().join("cellgate.db")).expect("the records");
    let changed = records
        .execute(
            "UPDATE sandboxes SET backend = json_set(backend, '$.pid', ?1, '$.started', ?2)",
            [u64::from(pid), started],
        )
        .expect("its record is changed");
    assert_eq!(changed, 1);
}

#[tokio::test]
async fn a_sandbox_that_can_not_be_told_from_another_keeps_its_name_until_it_is_terminated() {
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    launch(&client, "box").await;
    gateway.kill();
    // This process runs, and has no mark.
    replace_process(&data, std::process::id());
    let next = Start::default().data(data.path()).serve();
    let client = client.at(next.url());
    let refused = client.call("launch_sandbox", json!({"sandbox_name": "box"})).await.refused(&["sandbox.name_taken"]);
    assert!(refused.text().contains("doesn't carry its mark"), "{}", refused.text());
    assert!(refused.text().contains("terminate_sandbox"), "{}", refused.text());
    client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(marked(data.path()).is_empty(), "{:?}", marked(data.path()));
    launch(&client, "box").await;
}

#[tokio::test]
async fn a_process_that_is_just_ending_at_the_start_is_waited_for() {
    let data = TempDir::new().expect("a directory");
    let gateway = Start::default().data(data.path()).serve();
    let client = Client::connect(gateway.url()).await;
    launch(&client, "box").await;
    gateway.kill();
    // The environment of a process that ends is gone before the process is; here it stays gone as long as it takes.
    let mut ending = std::process::Command::new("sleep").arg("60").env_clear().spawn().expect("it runs");
    replace_process(&data, ending.id());
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        ending.kill().expect("it can be killed");
        ending.wait().expect("it ends");
    });
    let next = Start::default().data(data.path()).serve();
    ends.join().expect("it ended");
    let client = client.at(next.url());
    assert_eq!(launch(&client, "box").await["status"], "running");
}
