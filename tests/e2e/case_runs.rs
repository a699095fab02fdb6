//! Cases 08 and 09: live output, and runs that end otherwise than they should.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Desk, Era, Reply, read_json, validate_notebook};

async fn execute(desk: &Desk, cell: &str) -> Reply {
    desk.client.call("execute_cell", json!({"cell_id": cell})).await
}

#[tokio::test]
async fn case_08_live_output_is_shown_and_saved_as_jupyter_has_it() {
    let desk = Desk::new().await;
    let file = desk.open_case("08_live_streams.ipynb").await;

    let cr = execute(&desk, "cr").await.ok().outputs();
    assert_eq!(cr.trim(), "step 5/5");
    let short = execute(&desk, "crshort").await.ok().outputs();
    assert!(short.starts_with("9/10") && !short.contains("10/10"), "{short:?}");
    let clear = execute(&desk, "clear").await.ok().outputs();
    assert_eq!(clear.trim(), "frame 3");
    let update = execute(&desk, "update").await.ok();
    assert_eq!((update.get("count"), update.outputs().trim()), (&json!(1), "'final'"));
    let update2 = execute(&desk, "update2").await.ok().outputs();
    assert_eq!(update2.trim(), "done");
    let saved = desk.read("nb.ipynb")["cells"][3]["outputs"].clone();
    assert_eq!(saved.as_array().map(Vec::len), Some(1), "{saved}");
    assert!(saved.to_string().contains("from the next cell"), "{saved}");

    let order = execute(&desk, "order").await.ok().outputs();
    // The two streams come in any order; each is in order by itself.
    let places = ["A\n", "C\n", "'R'"].map(|words| order.find(words));
    assert!(places.iter().all(Option::is_some) && places.is_sorted() && order.contains("B\n"), "{order:?}");
    let late = execute(&desk, "late").await.ok().outputs();
    assert!(late.contains("cell ends"), "{late:?}");
    let child = execute(&desk, "child").await.ok().outputs();
    assert!(child.contains("from-child") && child.contains("child-err") && child.contains("py"), "{child:?}");
    let silent = execute(&desk, "silent").await.ok();
    assert_eq!((silent.get("count"), silent.get("outputs")), (&json!(0), &json!([])));
    assert!(silent.text().to_lowercase().contains("no output"), "{}", silent.text());
    assert_eq!(execute(&desk, "noeol").await.ok().outputs().trim_end(), "x");

    let deep = execute(&desk, "deep").await.ok();
    assert_eq!(deep.get("status"), "error");
    assert!(deep.outputs().trim_end().lines().last().unwrap().contains("ZeroDivisionError"), "{}", deep.outputs());
    assert_eq!(deep.get("exception")["ename"], "ZeroDivisionError");
    let exit = execute(&desk, "sysexit").await.ok();
    assert_eq!(
        (&exit.get("exception")["ename"], &exit.get("exception")["evalue"]),
        (&json!("SystemExit"), &json!("3"))
    );
    assert_eq!(execute(&desk, "syntax").await.ok().get("exception")["ename"], "SyntaxError");
    let alive = execute(&desk, "alive").await.ok();
    assert_eq!(alive.outputs().trim(), "still alive");
    assert_eq!(alive.get("execution_count"), 14);
    let meanwhile = desk.ok("execute_code", json!({"code": "import time\ntime.sleep(1.2)"})).await.outputs();
    assert!(![child, alive.outputs(), meanwhile].concat().contains("late line"));

    validate_notebook(&file);
    let types = |index: usize| {
        let outputs = read_json(&file)["cells"][index]["outputs"].clone();
        outputs
            .as_array()
            .unwrap()
            .iter()
            .map(|output| output["output_type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(types(0), ["stream"]);
    assert_eq!(types(3), ["display_data"]);
    assert!(types(5).contains(&"execute_result".to_owned()));
    assert_eq!(types(10), ["error"]);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("transient"));
    assert_eq!(read_json(&file)["cells"][13]["execution_count"], 14);
}

#[tokio::test]
async fn case_09_a_timeout_keeps_the_output_and_the_state() {
    let desk = Desk::new().await;
    let file = desk.open_case("09_long_and_death.ipynb").await;
    execute(&desk, "seed").await.ok();
    let started = Instant::now();
    let slow = desk.refused(&["execution.timeout"], "execute_cell", json!({"cell_id": "slow75", "timeout": 5})).await;
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(8), "{took:?}");
    assert_eq!(slow.get("status"), "timeout");
    assert!(slow.outputs().contains("tick 0") && slow.outputs().contains("tick 3"), "{}", slow.outputs());
    assert!(!slow.outputs().contains("tick 7"));
    let next = execute(&desk, "stillthere").await.ok();
    assert_eq!(next.outputs().trim(), "state kept");
    let saved = desk.read("nb.ipynb")["cells"][1]["outputs"].to_string();
    assert!(saved.contains("tick 3"), "{saved}");
    validate_notebook(&file);
}

#[tokio::test]
async fn case_09_input_is_refused_at_once_and_the_kernel_is_not_blocked() {
    let desk = Desk::new().await;
    desk.open_case("09_long_and_death.ipynb").await;
    execute(&desk, "seed").await.ok();
    for cell in ["stdin", "getpass"] {
        let started = Instant::now();
        let reply = execute(&desk, cell).await.ok();
        assert_eq!(reply.get("exception")["ename"], "StdinNotImplementedError", "{cell}");
        assert!(started.elapsed() < Duration::from_secs(5), "{cell}: {:?}", started.elapsed());
    }
    assert_eq!(execute(&desk, "stillthere").await.ok().outputs().trim(), "state kept");
}

#[tokio::test]
async fn case_09_a_kernel_that_dies_is_told_within_ten_seconds() {
    for cell in ["kill9", "exit0"] {
        let desk = Desk::new().await;
        let file = desk.open_case("09_long_and_death.ipynb").await;
        execute(&desk, "seed").await.ok();
        let started = Instant::now();
        let died = execute(&desk, cell).await.refused(&["kernel.died"]);
        assert!(started.elapsed() < Duration::from_secs(10), "{cell}: {:?}", started.elapsed());
        assert_eq!(died.get("status"), "died");
        let after = execute(&desk, "afterdeath").await.ok();
        assert_eq!(after.get("exception")["ename"], "NameError", "{}", after.structured());
        assert_eq!(after.get("execution_count"), 1);
        validate_notebook(&file);
    }
}

#[tokio::test]
async fn what_a_kernel_printed_before_it_died_is_kept() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    // A kernel that is killed in the same moment takes its last words with it.
    let code =
        "import os, signal, time\nprint('bye', flush=True)\ntime.sleep(0.5)\nos.kill(os.getpid(), signal.SIGKILL)";
    let arguments = json!({"cell_index": 0, "cell_source": code});
    let died = desk.refused(&["kernel.died"], "insert_execute_code_cell", arguments).await;
    assert!(died.outputs().contains("bye"), "{}", died.outputs());
    assert!(desk.read("nb.ipynb")["cells"][0]["outputs"].to_string().contains("bye"));
}

#[tokio::test]
async fn case_09_a_run_that_nobody_waits_for_any_more_is_interrupted() {
    // Cancelled by a notification, then by a connection that closes.
    for era in [Era::Legacy, Era::Modern] {
        let desk = Desk::of(era).await;
        desk.open_case("09_long_and_death.ipynb").await;
        execute(&desk, "seed").await.ok();
        let mut running = desk.client.start("execute_cell", json!({"cell_id": "forever", "progress_interval": 1}));
        // The second note: the run is under way for a second at least.
        running.progress_with("").await;
        running.progress_with("").await;
        running.cancel().await;
        let started = Instant::now();
        assert_eq!(execute(&desk, "stillthere").await.ok().outputs().trim(), "state kept");
        assert!(started.elapsed() < Duration::from_secs(4), "{era:?}: {:?}", started.elapsed());
        assert_idle(&desk).await;
    }
}

async fn assert_idle(desk: &Desk) {
    let rows = desk.ok("list_notebooks", json!({})).await;
    assert_eq!(rows.items()[0]["Kernel_Status"], "idle", "{:?}", rows.items());
}

#[tokio::test]
async fn case_09_code_that_ignores_the_interrupt_is_said_to_be_still_running() {
    let desk = Desk::new().await;
    desk.open_case("09_long_and_death.ipynb").await;
    execute(&desk, "seed").await.ok();
    let stubborn = desk
        .refused(&["execution.timeout", "kernel.busy"], "execute_cell", json!({"cell_id": "stubborn", "timeout": 3}))
        .await;
    assert!(stubborn.text().contains("still running") || stubborn.text().contains("busy"), "{}", stubborn.text());
    let next = desk.client.call("execute_cell", json!({"cell_id": "stillthere", "timeout": 2})).await;
    let next = next.refused(&["kernel.busy", "execution.timeout"]);
    assert!(next.text().contains("restart_notebook"), "{}", next.text());
    desk.ok("restart_notebook", json!({"notebook_name": "nb"})).await;
    let fresh = execute(&desk, "stillthere").await.ok();
    assert_eq!(fresh.get("exception")["ename"], "NameError");
}

#[tokio::test]
async fn case_09_progress_comes_while_a_long_run_goes_on() {
    let desk = Desk::new().await;
    desk.open_case("09_long_and_death.ipynb").await;
    let arguments = json!({"cell_id": "slow75", "timeout": 12});
    let (reply, notes) = desk.client.start("execute_cell", arguments).wait_with_progress().await;
    reply.refused(&["execution.timeout"]);
    let said: Vec<&str> = notes.iter().filter_map(|note: &Value| note["message"].as_str()).collect();
    assert!(said.iter().any(|message| message.contains("tick")), "{said:?}");
}
