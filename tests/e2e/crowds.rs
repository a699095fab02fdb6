//! Many callers at once, and many kernels: everybody gets their own, and nothing of it is lost.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Client, Desk, read_json, shared, validate_notebook};

const CALLERS: usize = 100;
/// How long a fresh kernel's first output may take where the machine starts several at once.
const FIRST: Duration = Duration::from_secs(30);

/// Clients of sessions of their own, which have a desk's notebook open.
async fn crowd(desk: &Desk) -> Vec<Client> {
    let path = format!("{}/nb.ipynb", desk.folder());
    let mut crowd = Vec::new();
    for _ in 0..CALLERS {
        let client = Client::connect(shared().url()).await;
        client.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
        client.call("use_notebook", json!({"notebook_name": "nb", "notebook_path": path})).await.ok();
        crowd.push(client);
    }
    crowd
}

#[tokio::test]
async fn a_hundred_callers_of_one_kernel_get_their_own_output_in_turn() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "seen = []"})).await;
    let crowd = crowd(&desk).await;
    let runs: Vec<_> = crowd
        .iter()
        .enumerate()
        .map(|(number, client)| {
            let code = format!("seen.append({number})\nprint('caller {number}')");
            client.start("execute_code", json!({"code": code, "notebook_name": "nb"}))
        })
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.wait().await.ok().outputs(), format!("caller {number}\n"));
    }
    let seen = desk
        .ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "sorted(seen) == list(range(100))"}));
    assert_eq!(seen.await.outputs(), "True");
}

#[tokio::test]
async fn a_hundred_callers_insert_and_run_in_one_notebook_and_each_cell_has_its_own_output() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let crowd = crowd(&desk).await;
    let runs: Vec<_> = crowd
        .iter()
        .enumerate()
        .map(|(number, client)| {
            let cell = json!({"cell_index": 0, "cell_source": format!("'caller {number}'")});
            client.start("insert_execute_code_cell", cell)
        })
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.wait().await.ok().outputs(), format!("'caller {number}'"));
    }
    let cells = read_json(&file)["cells"].as_array().expect("cells").clone();
    assert_eq!(cells.len(), CALLERS);
    for cell in cells {
        let source = crate::harness::sources(&json!({"cells": [cell]})).remove(0);
        assert!(cell["outputs"].to_string().contains(source.trim_matches('\'')), "{cell}");
    }
    validate_notebook(&file);
}

#[tokio::test]
async fn the_first_output_of_two_hundred_fresh_kernels_is_never_lost() {
    let fresh = async |_: usize| {
        let desk = Desk::new().await;
        desk.create("nb").await;
        for _ in 0..50 {
            let begun = Instant::now();
            let code = json!({"code": "print(1)", "notebook_name": "nb"});
            assert_eq!(desk.client.call("execute_code", code).await.ok().outputs(), "1\n");
            assert!(begun.elapsed() < FIRST, "{:?}", begun.elapsed());
            desk.ok("restart_notebook", json!({"notebook_name": "nb"})).await;
        }
    };
    futures_util::future::join_all((0..4).map(fresh)).await;
}
