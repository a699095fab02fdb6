//! `cellgate check`: a running gateway checked from outside.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Gateway, Start, eventually, marked, shared, signal};

/// What it said on stdout, and how it ended.
fn said(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

fn check(start: Start, url: &str) -> (String, Option<i32>) {
    said(&start.argument(url).command("check").output().expect("it starts"))
}

/// A server that answers every request so, or never.
fn server(answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            if let Some(answer) = answer {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            } else {
                kept.push(stream);
            }
        }
    });
    url
}

/// Fails unless the steps are told with these starts of lines, in this order.
fn assert_lines(text: &str, starts: [&str; 5]) {
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{text}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line:?} does not start with {start:?}:\n{text}");
    }
}

#[tokio::test]
async fn a_gateway_that_works_is_told_step_by_step_and_nothing_is_left_running() {
    let gateway = Start::default().env("CELLGATE_TOKEN", "tok-1234").serve();
    let (text, code) = check(Start::default().env("CELLGATE_TOKEN", "tok-1234"), gateway.origin());
    let hello = concat!("✓ handshake  cellgate ", env!("CARGO_PKG_VERSION"), " (");
    assert_lines(
        &text,
        [hello, "✓ tools  22 tools (", "✓ launch  check-", "✓ run  6 * 7 is 42 (", "✓ clean up  check-"],
    );
    assert_eq!(code, Some(0), "{text}");
    assert!(marked(gateway.data()).is_empty(), "{text}");
    let name = text.split_whitespace().find(|word| word.starts_with("check-")).expect("the sandbox's name");
    let files = gateway.files(name);
    assert!(files.is_dir() && text.contains(&format!("stay in {}", files.display())), "{text}");
    assert!(!gateway.log().contains("tok-1234"), "the token is in the log");
}

#[test]
fn no_ca_certificates_are_needed_without_tls() {
    let start = Start::default().env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nowhere");
    let (text, code) = check(start, shared().url());
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn a_check_leaves_the_workspaces_of_others_as_they_are() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    client.call("launch_sandbox", json!({"sandbox_name": "mine"})).await.ok();
    assert_eq!(check(Start::default(), &format!("{}?workspace=theirs", gateway.url())).1, Some(0));
    let reply = client.call("list_sandboxes", json!({})).await.ok();
    let list = reply.structured();
    let running: Vec<&Value> =
        list["result"].as_array().expect("a list").iter().filter(|sandbox| sandbox["status"] == "running").collect();
    assert_eq!(running.len(), 1, "{list}");
    assert!(running[0]["name"] == "mine" && running[0]["active"] == true, "{list}");
}

#[test]
fn programs_get_one_json_object() {
    let (text, code) = check(Start::default().argument("--json"), shared().url());
    let report: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!((&report["ok"], code), (&json!(true), Some(0)), "{text}");
    assert_eq!(report["url"], shared().url());
    let steps = report["steps"].as_array().expect("steps");
    let names: Vec<&str> = steps.iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(names, ["handshake", "tools", "launch", "run", "clean up"]);
    for step in steps {
        assert!(step["ok"] == true && step["milliseconds"].is_u64() && step["detail"].is_string(), "{step}");
    }
}

#[test]
fn a_wrong_token_and_none_are_told_apart() {
    let gateway = Start::default().env("CELLGATE_TOKEN", "tok-1234").serve();
    let (text, code) = check(Start::default().env("CELLGATE_TOKEN", "wrong"), gateway.url());
    let wrong = "✗ handshake  the gateway refused the token: ";
    assert_lines(&text, [wrong, "- tools  not tried", "- launch  not tried", "- run  not", "- clean up  not tried"]);
    assert_eq!(code, Some(1));
    let (text, code) = check(Start::default(), gateway.url());
    assert!(text.starts_with("✗ handshake  the gateway wants a token: "), "{text}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_token_file_is_used_and_one_that_can_not_work_is_a_wrong_setting() {
    let gateway = Start::default().env("CELLGATE_TOKEN", "tok-1234").serve();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("token");
    let start = || Start::default().argument("--token-file").argument(&file.to_string_lossy());
    assert_eq!(check(start(), gateway.url()), (String::new(), Some(2)));
    std::fs::write(&file, "tok\n1234").unwrap();
    assert_eq!(check(start(), gateway.url()), (String::new(), Some(2)));
    std::fs::write(&file, "tok-1234\n").unwrap();
    assert_eq!(check(start(), gateway.url()).1, Some(0));
}

#[test]
fn where_nobody_listens_the_sentence_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let (text, code) = check(Start::default().argument("--json"), &format!("http://{address}"));
    let report: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!((&report["ok"], code), (&json!(false), Some(1)), "{text}");
    let detail = report["steps"][0]["detail"].as_str().expect("text");
    assert!(detail.contains("can't be reached (Connection refused"), "{detail}");
    let untried = json!({"name": "clean up", "ok": null, "milliseconds": null, "detail": "not tried"});
    assert_eq!(report["steps"][4], untried);
}

#[test]
fn something_else_that_answers_is_no_gateway() {
    for (answer, words) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nno\n", "HTTP 404: check the URL"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", "speaks no MCP: check the URL"),
        ("HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n", "HTTP 302: check the URL"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "can't be reached ("),
    ] {
        let (text, code) = check(Start::default(), &server(Some(answer)));
        assert!(text.starts_with("✗ handshake  ") && text.contains(words), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let begun = Instant::now();
    let (text, code) = check(Start::default().argument("--timeout").argument("1"), &server(None));
    assert!(text.starts_with("✗ handshake  ") && text.contains("the 1 s for all steps"), "{text}");
    assert_eq!(code, Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_gateway_whose_launches_fail_says_why() {
    let gateway = Start::default().env("CELLGATE_PYTHON", "/nowhere").serve();
    let (text, code) = check(Start::default(), gateway.url());
    let starts = ["✓ handshake", "✓ tools", "✗ launch  ", "- run  not tried", "✓ clean up  nothing was left to end"];
    assert_lines(&text, starts);
    assert!(text.contains("/nowhere"), "{text}");
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn a_check_that_is_stopped_still_cleans_up() {
    let gateway = Gateway::start();
    let mut command = Start::default().argument(gateway.url()).command("check");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    eventually("a sandbox starts", Duration::from_secs(900), || !marked(gateway.data()).is_empty()).await;
    signal(i32::try_from(child.id()).expect("a process id"), "INT");
    let (text, code) = said(&child.wait_with_output().expect("it ends"));
    assert!(text.contains("stopped before its end") && text.contains("✓ clean up"), "{text}");
    assert_eq!(code, Some(1), "{text}");
    assert!(marked(gateway.data()).is_empty(), "{text}");
}

#[test]
fn what_can_not_be_a_url_is_refused_with_exit_2() {
    for url in ["gateway", "localhost:8717", "http://me:secret@127.0.0.1:1"] {
        let output = Start::default().argument(url).command("check").output().expect("it starts");
        assert_eq!(said(&output), (String::new(), Some(2)), "{url}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("secret"));
    }
}
