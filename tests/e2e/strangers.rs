//! What belongs to someone else is answered, to the byte, as what does not exist: all tools, two principals, two
//! workspaces.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::harness::{Client, Era, Gateway, Start, contract_tools};

const LAUNCH: Duration = Duration::from_secs(900);

/// Two principals of one gateway.
struct House {
    gateway: Gateway,
    _tokens: TempDir,
}

impl House {
    fn open() -> Self {
        let tokens = tempfile::tempdir().expect("a directory");
        let file = tokens.path().join("tokens");
        let line =
            |principal: &str| format!("acme {principal} {:x}\n", Sha256::digest(format!("token-of-{principal}")));
        std::fs::write(&file, line("alice") + &line("bob")).expect("written");
        let start = Start::default().argument("--tokens").argument(&file.to_string_lossy());
        Self { gateway: start.argument("--allow-unisolated").serve(), _tokens: tokens }
    }

    async fn client(&self, principal: &str, workspace: &str) -> Client {
        let url = format!("{}?workspace={workspace}", self.gateway.url());
        Client::connect_as(&url, Era::Modern, "same", Some(&format!("token-of-{principal}"))).await
    }
}

/// What Alice has, with something of the same form that nobody has.
struct Hers {
    sandbox: [String; 2],
    id: [String; 2],
    kernel: [String; 2],
    notebook: [String; 2],
    path: [String; 2],
    url: [String; 2],
}

async fn settled(alice: &Client) -> Hers {
    alice.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "alices-box"})).await.ok();
    let notebook = json!({"notebook_name": "alices-nb", "notebook_path": "alices.ipynb", "mode": "create"});
    alice.call("use_notebook", notebook).await.ok();
    let run = json!({"cell_index": 0, "cell_source": "secret = 1"});
    alice.call("insert_execute_code_cell", run).await.ok();
    let listed = alice.call("list_sandboxes", json!({})).await.ok();
    let kernels = alice.call("list_kernels", json!({})).await.ok();
    let of = |value: &Value| value.as_str().expect("a text").to_owned();
    let (id, url) = (of(&listed.get("result")[0]["id"]), of(&listed.get("result")[0]["url"]));
    let kernel = of(&kernels.get("items")[0]["ID"]);
    let pair = |hers: &str, nobodys: &str| {
        assert_eq!(hers.len(), nobodys.len());
        [hers.to_owned(), nobodys.to_owned()]
    };
    Hers {
        sandbox: pair("alices-box", "nobodys-ox"),
        id: pair(&id, "s-aaaaaaaa"),
        kernel: pair(&kernel, "00000000-0000-4000-8000-000000000000"),
        notebook: pair("alices-nb", "nobody-nb"),
        path: pair("alices.ipynb", "nobody.ipynb"),
        url: pair(&url, &url.replace(&id, "s-aaaaaaaa")),
    }
}

/// Calls that name something of hers, or something of nobody's in its place.
fn calls(hers: &Hers) -> Vec<(&'static str, Value, [String; 2])> {
    let mut calls = Vec::new();
    let mut add =
        |tool: &'static str, arguments: Value, named: &[String; 2]| calls.push((tool, arguments, named.clone()));
    for sandbox in [&hers.sandbox, &hers.id] {
        for tool in ["use_sandbox", "terminate_sandbox", "list_files", "list_kernels"] {
            add(tool, json!({"sandbox_name": sandbox[0]}), sandbox);
        }
        add("execute_code", json!({"code": "secret", "sandbox_name": sandbox[0]}), sandbox);
        let opening = json!({"notebook_name": "n", "notebook_path": "alices.ipynb", "sandbox_name": sandbox[0]});
        add("use_notebook", opening, sandbox);
    }
    add("execute_code", json!({"code": "secret", "kernel_id": hers.kernel[0]}), &hers.kernel);
    add("execute_code", json!({"code": "secret", "notebook_name": hers.notebook[0]}), &hers.notebook);
    add("use_notebook", json!({"notebook_name": "n", "notebook_path": hers.path[0]}), &hers.path);
    let kernel = json!({"notebook_name": "own", "notebook_path": "own.ipynb", "kernel_id": hers.kernel[0]});
    add("use_notebook", kernel, &hers.kernel);
    add("connect_to_jupyter", json!({"jupyter_url": hers.url[0]}), &hers.url);
    let attach = json!({"sandbox_name": "x", "variant": "jupyter-server", "server_url": hers.url[0]});
    add("launch_sandbox", attach, &hers.url);
    for (tool, mut arguments) in [
        ("unuse_notebook", json!({})),
        ("read_notebook", json!({})),
        ("restart_notebook", json!({})),
        ("read_cell", json!({"cell_index": 0})),
        ("execute_cell", json!({"cell_index": 0})),
        ("clear_cell_output", json!({"cell_index": 0})),
        ("delete_cell", json!({"cell_indices": [0]})),
        ("move_cell", json!({"source_index": 0, "target_index": 0})),
        ("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": "x"})),
        ("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "x"})),
        ("overwrite_cell_source", json!({"cell_index": 0, "cell_source": "x"})),
        ("edit_cell_source", json!({"cell_index": 0, "old_string": "secret", "new_string": "x"})),
    ] {
        arguments["notebook_name"] = json!(hers.notebook[0]);
        add(tool, arguments, &hers.notebook);
    }
    calls
}

/// Each call is answered as the same one about nothing.
async fn sees_nothing(caller: &Client, calls: &[(&'static str, Value, [String; 2])]) {
    for (tool, arguments, [hers, nobodys]) in calls {
        let nothing: Value = serde_json::from_str(&arguments.to_string().replace(hers, nobodys)).expect("JSON");
        let of_hers = caller.call(tool, arguments.clone()).await;
        let of_nothing = caller.call(tool, nothing).await;
        let expected = of_nothing.result().to_string().replace(nobodys, hers);
        assert_eq!(of_hers.result().to_string(), expected, "{tool} {arguments}");
    }
}

fn names_nothing_of_hers(text: &str, hers: &Hers) {
    for [name, _] in [&hers.sandbox, &hers.id, &hers.kernel, &hers.notebook, &hers.path] {
        assert!(!text.contains(name.as_str()), "{name} in {text}");
    }
}

#[tokio::test]
async fn another_principals_things_are_as_if_they_were_not() {
    let house = House::open();
    let alice = house.client("alice", "w").await;
    let hers = settled(&alice).await;
    let calls = calls(&hers);
    let bob = house.client("bob", "w").await;
    // Before he has anything, and with a sandbox and a notebook of his own.
    sees_nothing(&bob, &calls).await;
    bob.call("launch_sandbox", json!({"sandbox_name": "own"})).await.ok();
    bob.call("use_notebook", json!({"notebook_name": "own", "notebook_path": "own.ipynb", "mode": "create"}))
        .await
        .ok();
    sees_nothing(&bob, &calls).await;
    let mut tools: BTreeSet<&str> = calls.iter().map(|(tool, _, _)| *tool).collect();
    for tool in ["list_sandboxes", "list_notebooks", "list_files", "list_kernels"] {
        names_nothing_of_hers(&bob.call(tool, json!({})).await.ok().result().to_string(), &hers);
        tools.insert(tool);
    }
    let all: BTreeSet<&str> = contract_tools()["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(tools, all, "some tools were not tried");
    // Her name is free for him, and leads to files of his own.
    let own = bob.call("launch_sandbox", json!({"sandbox_name": hers.sandbox[0]})).await.ok();
    assert_ne!(own.get("sandbox")["id"], json!(hers.id[0]));
    let files = bob.call("list_files", json!({"sandbox_name": hers.sandbox[0]})).await.ok();
    assert!(!files.text().contains("alices.ipynb"), "{}", files.text());
    // Nothing of hers was touched.
    let read = alice.call("execute_code", json!({"code": "print(secret)"})).await.ok();
    assert_eq!(read.outputs().trim(), "1");
    alice.call("read_cell", json!({"cell_index": 0})).await.ok().says("secret = 1");
}

#[tokio::test]
async fn another_workspaces_notebooks_are_as_if_they_were_not_and_its_pointers_stay() {
    let house = House::open();
    let first = house.client("alice", "first").await;
    let hers = settled(&first).await;
    let second = house.client("alice", "second").await;
    second.call("launch_sandbox", json!({"sandbox_name": "other"})).await.ok();
    second.call("use_sandbox", json!({"sandbox_name": "other"})).await.ok();
    second
        .call("use_notebook", json!({"notebook_name": "own", "notebook_path": "own.ipynb", "mode": "create"}))
        .await
        .ok();
    let of_notebooks: Vec<_> = calls(&hers).into_iter().filter(|(_, _, named)| *named == hers.notebook).collect();
    assert_eq!(of_notebooks.len(), 13);
    sees_nothing(&second, &of_notebooks).await;
    let open = second.call("list_notebooks", json!({})).await.ok().result().to_string();
    assert!(!open.contains("alices-nb"), "{open}");
    // Sandboxes belong to the principal.
    second.call("list_files", json!({"sandbox_name": hers.sandbox[0]})).await.ok().says("alices.ipynb");
    let ran = first.call("execute_code", json!({"code": "print(secret)"})).await.ok();
    assert_eq!(ran.outputs().trim(), "1");
    let active = |listed: &Value| {
        let records = listed.as_array().expect("a list");
        records.iter().find(|record| record["active"] == true).map(|record| record["name"].clone())
    };
    let listed = first.call("list_sandboxes", json!({})).await.ok();
    assert_eq!(active(listed.get("result")), Some(json!("alices-box")));
}

#[tokio::test]
async fn another_principals_session_is_as_if_it_were_not() {
    let house = House::open();
    let alice = Client::connect_as(house.gateway.url(), Era::Legacy, "editor", Some("token-of-alice")).await;
    let session = alice.session().expect("a session").to_owned();
    let http = crate::harness::http();
    let asked = |method: reqwest::Method, session: &str| {
        let request = http.request(method, house.gateway.url()).bearer_auth("token-of-bob");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").header("mcp-session-id", session.to_owned());
        let request = request.header("mcp-protocol-version", "2025-11-25");
        async {
            let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}).to_string();
            let response = request.body(body).send().await.expect("an answer");
            (response.status(), response.text().await.expect("a body"))
        }
    };
    for method in [reqwest::Method::POST, reqwest::Method::GET, reqwest::Method::DELETE] {
        let hers = asked(method.clone(), &session).await;
        assert_eq!(hers.0, 404, "{method}: {}", hers.1);
        assert_eq!(hers, asked(method, "00000000-0000-4000-8000-000000000000").await);
    }
    alice.call("list_sandboxes", json!({})).await.ok();
}
