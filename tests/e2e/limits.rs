//! How many, how long, and what becomes of the files: what operators decide.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Era, ForeignJupyter, Gateway, Start, eventually, marked, sandbox_token, shared};

const LAUNCH: Duration = Duration::from_secs(900);

async fn launched(start: Start) -> (Gateway, Client) {
    let gateway = start.serve();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    (gateway, client)
}

#[tokio::test]
async fn limits_are_counted_over_all_gateways_of_a_data_directory() {
    let data = TempDir::new().expect("a directory");
    let start = || Start::default().data(data.path()).env("CELLGATE_MAX_SANDBOXES", "2");
    let (_one, client) = launched(start()).await;
    let other = start().env("CELLGATE_MAX_SANDBOXES_IN_ALL", "1").serve();
    let second = Client::connect(other.url()).await;
    let full = second.call("launch_sandbox", json!({"sandbox_name": "more"})).await.refused(&["sandbox.limit"]);
    assert!(full.text().contains("for everyone together (1)"), "{}", full.text());
    client.call("launch_sandbox", json!({"sandbox_name": "more"})).await.ok();
    let refused = second.call("launch_sandbox", json!({"sandbox_name": "third"})).await.refused(&["sandbox.limit"]);
    assert!(refused.text().contains("box, more"), "{}", refused.text());
}

#[tokio::test]
async fn a_longer_life_than_allowed_is_refused_by_name_and_the_default_is_told() {
    let start = Start::default().env("CELLGATE_TTL", "600").env("CELLGATE_TTL_CEILING", "900");
    let (gateway, client) = launched(start.env("CELLGATE_IDLE_CEILING", "60")).await;
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let record: &Value = &listed.get("result")[0];
    let time = |key: &str| record[key].as_str().expect("a time").parse::<jiff::Timestamp>().expect("RFC 3339");
    assert_eq!(time("expires_at").duration_since(time("created_at")).as_secs(), 600);
    for (wish, seconds) in [("ttl_seconds", 901), ("idle_timeout_seconds", 61)] {
        let arguments = json!({"sandbox_name": "long", wish: seconds});
        let refused = client.call("launch_sandbox", arguments).await.refused(&["arguments.invalid"]);
        assert!(refused.text().contains(wish) && refused.text().contains("ask for at most"), "{}", refused.text());
    }
    assert!(!gateway.files("long").exists(), "something was made all the same");
}

#[tokio::test]
async fn launches_wait_for_their_turn_and_say_so() {
    let (gateway, client) = launched(Start::default().env("CELLGATE_LAUNCHES_AT_ONCE", "1")).await;
    let names: Vec<String> = (0..6).map(|number| format!("box-{number}")).collect();
    let launches: Vec<_> =
        names.iter().map(|name| client.start("launch_sandbox", json!({"sandbox_name": name, "timeout": 30}))).collect();
    let mut waited = 0;
    for launch in launches {
        let (reply, notes) = launch.wait_with_progress().await;
        reply.ok();
        let says =
            |note: &Value| note["message"].as_str().is_some_and(|message| message.contains("waiting for a turn"));
        waited += usize::from(notes.iter().any(says));
    }
    assert!(waited >= 3, "{waited} were told that they wait");
    let servers = marked(gateway.data()).into_iter().filter(|process| process.command.contains("start_jupyter.py"));
    assert_eq!(servers.count(), 7);
}

#[tokio::test]
async fn an_ephemeral_sandboxs_files_end_with_it_and_every_answer_says_so() {
    let gateway = Start::default().argument("--ephemeral").serve();
    let client = Client::connect(gateway.url()).await;
    let launched = client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(launched.text().contains("deleted when it ends"), "{}", launched.text());
    client.call("execute_code", json!({"code": "open('f', 'w').close()"})).await.ok();
    assert!(gateway.files("box").join("f").exists());
    let ended = client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
    assert!(ended.text().contains("No files are kept"), "{}", ended.text());
    assert!(!gateway.files("box").exists());
    let gone = client.call("list_files", json!({"sandbox_name": "box"})).await.refused(&["sandbox.gone"]);
    assert!(gone.text().contains("files were deleted"), "{}", gone.text());
}

#[tokio::test]
async fn files_that_nobody_used_for_as_long_as_they_are_kept_are_deleted_at_the_next_start() {
    let data = TempDir::new().expect("a directory");
    let workspaces = data.path().join("workspaces/local");
    let touch = |name: &str, days: u32| {
        let file = workspaces.join(name).join("f");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(&file, "x").expect("written");
        for path in [&file, file.parent().expect("a folder")] {
            let at = std::time::SystemTime::now() - Duration::from_secs(u64::from(days) * 24 * 3600);
            std::fs::File::open(path).and_then(|file| file.set_modified(at)).expect("its time is set");
        }
    };
    touch("old", 40);
    touch("new", 20);
    touch("used", 40);
    touch("of-tomorrow", 40);
    let tomorrow = std::time::SystemTime::now() + Duration::from_secs(48 * 3600);
    let file = std::fs::File::open(workspaces.join("of-tomorrow/f")).expect("it is there");
    file.set_modified(tomorrow).expect("its time is set");
    // One that runs is used, whatever its files say.
    let (gateway, client) = launched(Start::default().data(data.path())).await;
    client.call("launch_sandbox", json!({"sandbox_name": "used"})).await.ok();
    let next = Start::default().data(data.path()).env("CELLGATE_RETENTION", "30").serve();
    eventually("the old files are deleted", Duration::from_secs(20), || !workspaces.join("old").exists()).await;
    for kept in ["new/f", "used/f", "of-tomorrow/f"] {
        assert!(workspaces.join(kept).exists(), "{kept} is deleted");
    }
    drop((gateway, next));
}

#[tokio::test]
async fn a_persons_connection_keeps_a_sandbox_and_its_end_does_not() {
    let (gateway, client) = launched(Start::default().env("CELLGATE_IDLE_TIMEOUT", "3")).await;
    let ran = client.call("execute_code", json!({"code": "1"})).await.ok();
    let kernel = ran.get("kernel_id").as_str().expect("an id").to_owned();
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let record = listed.get("result")[0].clone();
    let token = sandbox_token(gateway.data(), record["id"].as_str().expect("an id"));
    let url = record["url"].as_str().expect("a url").replace("http://", "ws://");
    let channels = format!("{url}api/kernels/{kernel}/channels?token={token}");
    let (person, _) = tokio_tungstenite::connect_async(channels).await.expect("a person connects");
    // Not a wait for something: twice the idle time has to pass without an end.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!marked(gateway.data()).is_empty(), "it ended under a person's hands");
    drop(person);
    eventually("it ends unused", Duration::from_secs(20), || marked(gateway.data()).is_empty()).await;
}

#[tokio::test]
async fn away_from_ones_own_machine_only_what_the_operator_lists_is_attached() {
    let desk = crate::harness::Desk::new().await;
    let foreign = ForeignJupyter::start(shared().data()).await;
    drop(desk);
    let serve = |listed: &str| {
        let start = Start::default().env("CELLGATE_TOKEN", "t").argument("--allow-unisolated=true");
        let start = if listed.is_empty() { start } else { start.env("CELLGATE_ATTACHABLE", listed) };
        start.listen("0.0.0.0:0").serve()
    };
    let local = foreign.url().replace("127.0.0.1", "localhost");
    for (listed, url, allowed) in [
        ("", foreign.url(), false),
        ("lab.example.org,127.0.0.2", foreign.url(), false),
        ("127.0.0.1:1", foreign.url(), false),
        ("localhost", &local, false),
        (foreign.name(), foreign.url(), true),
    ] {
        let gateway = serve(listed);
        let url_here = gateway.url().replace("0.0.0.0", "127.0.0.1");
        let client = Client::connect_as(&url_here, Era::Modern, "t", Some("t")).await;
        let attach = json!({"jupyter_url": url, "jupyter_token": foreign.token()});
        let by_launch = json!({
            "sandbox_name": "x", "variant": "jupyter-server", "server_url": url, "token": foreign.token()
        });
        for (tool, arguments) in [("connect_to_jupyter", attach), ("launch_sandbox", by_launch)] {
            let reply = client.call(tool, arguments).await;
            if allowed {
                reply.ok();
                client.call("execute_code", json!({"code": "1"})).await.ok();
            } else {
                reply.refused(&["forbidden"]).says("operator allows");
            }
        }
    }
}
