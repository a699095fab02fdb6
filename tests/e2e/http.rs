//! The HTTP side: health, hosts, origins, sessions, tokens.

use serde_json::{Value, json};

use crate::harness::{Client, Era, Gateway, Start, case, run_python, shared};

/// What case 17's probe saw, as (check, status, start of the body).
fn probe(gateway: &Gateway, token: Option<&str>) -> Vec<(String, String, String)> {
    let mut arguments = vec![gateway.origin(), "/mcp"];
    arguments.extend(token);
    let output = run_python(&case("17_http_probe.py"), arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let checks = said.lines().map(|line| {
        let (check, rest) = line.split_once(" got ").expect("a line of the probe");
        let (got, _) = rest.rsplit_once(" want ").expect("a line of the probe");
        let (status, body) = got.split_once(' ').unwrap_or((got, ""));
        (check.trim().to_owned(), status.to_owned(), body.trim().to_owned())
    });
    checks.collect()
}

fn assert_probe(gateway: &Gateway, token: Option<&str>, expected: &[(&str, &[&str], &str)]) {
    let seen = probe(gateway, token);
    let mut wrong = Vec::new();
    for (check, statuses, words) in expected {
        let (_, status, body) =
            seen.iter().find(|(name, _, _)| name == check).unwrap_or_else(|| panic!("the probe has no {check}"));
        if !statuses.contains(&status.as_str()) || !body.contains(words) {
            wrong.push(format!("{check}: {status} {body}, not {statuses:?} {words:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Waits until the gateway can launch sandboxes: the first start on a machine builds their Python environment.
async fn ready(gateway: &Gateway) {
    let http = crate::harness::http();
    let url = format!("{}/readyz", gateway.origin());
    let ready = async {
        while !http.get(&url).send().await.is_ok_and(|response| response.status().is_success()) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(900), ready).await.expect("it gets ready");
}

#[tokio::test]
async fn case_17_every_request_of_the_probe_is_answered_right() {
    let gateway = Gateway::start();
    ready(&gateway).await;
    let expected: [(&str, &[&str], &str); 23] = [
        ("GET /livez", &["200"], ""),
        ("GET /readyz", &["200"], ""),
        ("GET health, Host: pod ip", &["200"], ""),
        ("initialize", &["200"], ""),
        ("initialize, no token", &["200"], ""),
        ("initialize, Host: evil.example", &["403", "421"], ""),
        ("initialize, Host: svc name (configure it)", &["403", "421"], ""),
        ("initialize, Host without port", &["200"], ""),
        ("initialize, Origin: https://evil.example", &["403"], ""),
        ("initialize, trailing slash", &["200", "307", "308"], ""),
        ("initialize, Accept: application/json only", &["200", "406"], ""),
        ("initialize, Accept missing", &["200", "406"], ""),
        ("initialize, unknown protocolVersion", &["200"], ""),
        ("tools/list, made-up session id", &["404"], "\"id\":2"),
        ("tools/list, with the session", &["200"], ""),
        ("server/discover (2026-07-28)", &["200", "400"], ""),
        ("tools/list with no session, 2026-07-28", &["200", "400"], ""),
        ("POST broken json", &["400"], "-32700"),
        ("DELETE made-up session", &["404"], ""),
        ("DELETE the session", &["200", "202", "204"], ""),
        ("DELETE it again", &["404"], ""),
        ("PUT", &["405"], ""),
        ("GET /metrics", &["200"], ""),
    ];
    assert_probe(&gateway, None, &expected);
}

#[tokio::test]
async fn case_17_with_a_token_nothing_runs_without_it_and_health_needs_none() {
    let gateway = Start::default().env("CELLGATE_TOKEN", "tok-1234").serve();
    let expected: [(&str, &[&str], &str); 6] = [
        ("GET /livez", &["200"], ""),
        ("GET health, Host: pod ip", &["200"], ""),
        ("initialize", &["200"], ""),
        ("initialize, no token", &["401"], ""),
        ("initialize, Host: evil.example", &["403", "421"], ""),
        ("tools/list, with the session", &["200"], ""),
    ];
    assert_probe(&gateway, Some("tok-1234"), &expected);
    let http = crate::harness::http();
    for token in [None, Some("wrong"), Some("tok-12345")] {
        let mut request = http
            .post(gateway.url())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request
            .body(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string())
            .send()
            .await
            .expect("an answer");
        assert_eq!(response.status(), 401, "{token:?}");
        assert!(response.headers()["www-authenticate"].to_str().expect("text").starts_with("Bearer"));
        assert!(!response.text().await.expect("a body").contains("tok-1234"));
    }
    let client = Client::connect_as(gateway.url(), Era::Modern, "t", Some("tok-1234")).await;
    client.call("list_sandboxes", json!({})).await.ok();
    assert!(!gateway.log().contains("tok-1234"), "the token is in the log");
}

#[tokio::test]
async fn a_refused_method_says_which_are_allowed() {
    let http = crate::harness::http();
    let response = http.put(shared().url()).body("{}").send().await.expect("an answer");
    assert_eq!(response.status(), 405);
    let allowed = response.headers()["allow"].to_str().expect("text").to_owned();
    assert!(allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn a_session_that_the_gateway_does_not_know_is_404_with_the_requests_own_id() {
    let http = crate::harness::http();
    let request = http
        .post(shared().url())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    let request = request
        .header("mcp-session-id", "00000000-dead-beef")
        .body(json!({"jsonrpc": "2.0", "id": "my-id", "method": "tools/list"}).to_string());
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 404);
    let message: Value = response.json().await.expect("JSON");
    assert_eq!(message["id"], "my-id", "{message}");
}

#[tokio::test]
async fn the_metrics_show_no_code_and_no_names_of_files() {
    let desk = crate::harness::Desk::new().await;
    desk.ok("execute_code", json!({"code": "print('needle-in-metrics')"})).await;
    let http = crate::harness::http();
    let text =
        http.get(format!("{}/metrics", shared().origin())).send().await.expect("an answer").text().await.expect("text");
    assert!(text.contains("cellgate"), "{text}");
    assert!(!text.contains("needle-in-metrics") && !text.contains(desk.folder()), "{text}");
    assert!(!shared().log().contains("needle-in-metrics"), "code is in the log");
}

#[test]
fn a_bad_configuration_is_refused_before_anything_starts() {
    let data = tempfile::tempdir().expect("a directory");
    for (start, words) in [
        (Start::default().data(data.path()).argument("--listen").argument("nonsense"), "listen"),
        (Start::default().data(data.path()).argument("--variant").argument("nonsense"), "nonsense"),
        (Start::default().data(data.path()).argument("--no-such-flag"), "no-such-flag"),
        (Start::default().data(data.path()).env("CELLGATE_LISTEN", "nonsense"), "nonsense"),
        (Start::default().data(data.path()).env("JUPYTER_URL", "nonsense"), "JUPYTER_URL"),
        (
            Start::default()
                .data(data.path())
                .argument("--listen")
                .argument("0.0.0.0:0")
                .argument("--allow-unisolated"),
            "CELLGATE_TOKEN",
        ),
    ] {
        let output = start.command("serve").stdin(std::process::Stdio::null()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.to_lowercase().contains(&words.to_lowercase()), "{words}: {said}");
    }
}
