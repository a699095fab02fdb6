//! Who may call, and that each sees only what is theirs.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::{Client, Era, Gateway, Start, eventually, http};

/// How long a start that is refused may take.
const REFUSAL: Duration = Duration::from_secs(30);
const LAUNCH: Duration = Duration::from_secs(900);

/// A tokens file of its own.
struct TokensFile(TempDir);

impl TokensFile {
    fn new(text: &str) -> Self {
        let file = Self(tempfile::tempdir().expect("a directory"));
        file.put(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("tokens")
    }

    fn put(&self, text: &str) {
        std::fs::write(self.path(), text).expect("the tokens file is written");
    }

    /// A start with this file.
    fn start(&self) -> Start {
        Start::default().argument("--tokens").argument(&self.path().to_string_lossy())
    }
}

fn line(tenant: &str, principal: &str, token: &str) -> String {
    format!("{tenant} {principal} {:x}\n", Sha256::digest(token))
}

fn alice_and_bob() -> String {
    line("acme", "alice", "token-of-alice") + &line("acme", "bob", "token-of-bob")
}

/// The status of a first request that shows that token.
async fn status(gateway: &Gateway, token: Option<&str>) -> u16 {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let request = http().post(gateway.url()).header("accept", "application/json, text/event-stream");
    let mut request = request
        .header("content-type", "application/json")
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string());
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    request.send().await.expect("an answer").status().as_u16()
}

async fn metrics(gateway: &Gateway) -> String {
    let answer = http().get(format!("{}/metrics", gateway.origin())).send().await.expect("an answer");
    answer.text().await.expect("text")
}

#[tokio::test]
async fn only_who_shows_a_token_of_the_file_is_answered() {
    let file = TokensFile::new(&line("acme", "alice", "token-of-alice"));
    let gateway = file.start().serve();
    let hash = format!("{:x}", Sha256::digest("token-of-alice"));
    for wrong in [None, Some("wrong"), Some(""), Some("token-of-alice1"), Some(hash.as_str())] {
        assert_eq!(status(&gateway, wrong).await, 401, "{wrong:?}");
    }
    for era in [Era::Legacy, Era::Modern] {
        let alice = Client::connect_as(gateway.url(), era, "t", Some("token-of-alice")).await;
        alice.call("list_sandboxes", json!({})).await.ok();
    }
    assert!(!gateway.log().contains(&hash) && !gateway.log().contains("token-of-alice"), "{}", gateway.log());
}

#[tokio::test]
async fn two_principals_with_a_sandbox_of_one_name_each_see_only_their_own() {
    let file = TokensFile::new(&alice_and_bob());
    let gateway = file.start().argument("--allow-unisolated").serve();
    for principal in ["alice", "bob"] {
        let token = format!("token-of-{principal}");
        let client = Client::connect_as(gateway.url(), Era::Modern, "same-name", Some(&token)).await;
        let before = client.call("list_sandboxes", json!({})).await.ok();
        assert_eq!(before.get("result").as_array().map(Vec::len), Some(0), "{}", before.text());
        client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
        let code = format!("x = globals().get('x', 'new'); open('{principal}.txt', 'w').close(); print(x); x = 'used'");
        let ran = client.call("execute_code", json!({"code": code})).await.ok();
        assert!(ran.outputs().contains("new"), "{}", ran.outputs());
        let after = client.call("list_sandboxes", json!({})).await.ok();
        assert_eq!(after.get("result").as_array().map(Vec::len), Some(1), "{}", after.text());
    }
    let workspaces = gateway.data().join("workspaces");
    assert!(workspaces.join("acme+alice/box/alice.txt").exists() && workspaces.join("acme+bob/box/bob.txt").exists());
    assert!(!workspaces.join("acme+alice/box/bob.txt").exists() && !workspaces.join("acme+bob/box/alice.txt").exists());
}

#[tokio::test]
async fn a_token_works_while_it_is_in_the_file() {
    let file = TokensFile::new(&line("acme", "alice", "token-of-alice"));
    let gateway = file.start().serve();
    let alice = Client::connect_as(gateway.url(), Era::Modern, "t", Some("token-of-alice")).await;
    file.put(&(line("acme", "alice", "token-of-alice") + &line("acme", "alice", "newer-token")));
    assert_eq!(status(&gateway, Some("newer-token")).await, 200);
    alice.call("list_sandboxes", json!({})).await.ok();
    file.put(&line("acme", "alice", "newer-token"));
    assert_eq!(status(&gateway, Some("token-of-alice")).await, 401);
    assert_eq!(status(&gateway, Some("newer-token")).await, 200);
    file.put("# nobody\n");
    assert_eq!(status(&gateway, Some("newer-token")).await, 401);
}

#[tokio::test]
async fn a_file_that_is_broken_or_gone_leaves_the_earlier_tokens_valid_and_is_told_once() {
    let file = TokensFile::new(&line("acme", "alice", "token-of-alice"));
    let gateway = file.start().serve();
    file.put(&format!("{}acme alice no-hash-at-all\n", line("acme", "alice", "newer-token")));
    for _ in 0..3 {
        assert_eq!(status(&gateway, Some("token-of-alice")).await, 200);
        assert_eq!(status(&gateway, Some("newer-token")).await, 401);
    }
    assert!(metrics(&gateway).await.contains("cellgate_tokens_errors_total 1"));
    eventually("the log tells of it", Duration::from_secs(10), || gateway.log().contains("line 2")).await;
    let log = gateway.log();
    assert_eq!(log.matches("line 2").count(), 1, "{log}");
    assert!(!log.contains("no-hash-at-all"), "{log}");
    std::fs::remove_file(file.path()).expect("it was there");
    for _ in 0..3 {
        assert_eq!(status(&gateway, Some("token-of-alice")).await, 200);
    }
    assert!(metrics(&gateway).await.contains("cellgate_tokens_errors_total 2"));
}

#[tokio::test]
async fn a_second_principal_is_not_taken_where_sandboxes_isolate_nothing() {
    let file = TokensFile::new(&line("acme", "alice", "token-of-alice"));
    let gateway = file.start().serve();
    file.put(&alice_and_bob());
    assert_eq!(status(&gateway, Some("token-of-bob")).await, 401);
    assert_eq!(status(&gateway, Some("token-of-alice")).await, 200);
    assert!(metrics(&gateway).await.contains("cellgate_tokens_errors_total 1"));
}

#[tokio::test]
async fn the_flag_for_several_principals_can_be_given_in_every_way() {
    let file = TokensFile::new(&alice_and_bob());
    let config = file.0.path().join("cellgate.toml");
    std::fs::write(&config, format!("allow_unisolated = true\ntokens = '{}'\n", file.path().display())).expect("it is");
    for start in [
        file.start().argument("--allow-unisolated"),
        file.start().env("CELLGATE_ALLOW_UNISOLATED", "true"),
        Start::default().argument("--config").argument(&config.to_string_lossy()),
        Start::default().env("CELLGATE_TOKENS", &file.path().to_string_lossy()).argument("--allow-unisolated=true"),
    ] {
        assert_eq!(status(&start.serve(), Some("token-of-bob")).await, 200);
    }
}

#[tokio::test]
async fn a_start_that_could_let_the_wrong_caller_in_is_refused() {
    let one = TokensFile::new(&line("acme", "alice", "token-of-alice"));
    let two = TokensFile::new(&alice_and_bob());
    let empty = TokensFile::new("\n# nobody\n");
    let broken = TokensFile::new(&format!("\n{}acme Bob 00\n", line("acme", "alice", "token-of-alice")));
    let clash = TokensFile::new(&(alice_and_bob() + &line("acme", "carol", "token-of-bob")));
    let data = tempfile::tempdir().expect("a directory");
    for (start, words) in [
        (two.start(), "--allow-unisolated"),
        (two.start().argument("--allow-unisolated=false"), "--allow-unisolated"),
        (one.start().argument("--listen").argument("0.0.0.0:0"), "--allow-unisolated"),
        (Start::default().env("CELLGATE_TOKEN", "t").argument("--listen").argument("0.0.0.0:0"), "--allow-unisolated"),
        (one.start().env("CELLGATE_TOKEN", "t"), "--tokens alone"),
        (one.start().argument("--token-file").argument("t"), "--tokens alone"),
        (empty.start(), "names nobody"),
        (broken.start(), "line 3"),
        (clash.start().argument("--allow-unisolated"), "line 3"),
        (Start::default().argument("--tokens").argument("/nowhere/tokens"), "/nowhere/tokens"),
    ] {
        let mut command = Command::from(start.data(data.path()).command("serve"));
        let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let ended = tokio::time::timeout(REFUSAL, ended).await;
        let output = ended.unwrap_or_else(|_| panic!("{words}: it is not refused")).expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
    }
}
