//! How runs end, as the answer, the cell and the notebook tell it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Desk, Gateway, LAUNCH, Reply, marked, signal, validate_notebook};

/// Runs a new cell.
async fn run(desk: &Desk, source: &str, timeout: u64) -> Reply {
    let cell = json!({"cell_index": -1, "cell_source": source, "timeout": timeout});
    desk.client.call("insert_execute_code_cell", cell).await
}

/// What `read_cell` says of the cell that an answer is about: its status and exception.
async fn told(desk: &Desk, reply: &Reply) -> (Value, Value) {
    let read = desk.ok("read_cell", json!({"cell_id": reply.get("cell")["id"]})).await;
    (read.get("status").clone(), read.get("exception")["ename"].clone())
}

async fn desk() -> Desk {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk
}

#[tokio::test]
async fn code_that_waits_in_an_event_loop_is_interrupted_by_timeouts_and_cancels() {
    let desk = desk().await;
    let begun = Instant::now();
    let late = run(&desk, "import asyncio\nprint('began')\nawait asyncio.sleep(60)", 1).await;
    let late = late.refused(&["execution.timeout"]);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(late.outputs().contains("began"));
    let cell = json!({"cell_index": -1, "cell_source": "print('began')\nawait asyncio.sleep(60)\nopen('made', 'w')", "progress_interval": 1});
    let mut running = desk.client.start("insert_execute_code_cell", cell);
    running.progress_with("began").await;
    running.cancel().await;
    let begun = Instant::now();
    assert!(run(&desk, "print('next')", 20).await.ok().outputs().contains("next"));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(!desk.path("made").exists());
}

#[tokio::test]
async fn a_cell_that_did_not_come_to_its_end_does_not_look_as_if_it_had() {
    let desk = desk().await;
    let died = run(&desk, "import os, time\nprint('bye', flush=True)\ntime.sleep(0.3)\nos._exit(0)", 20).await;
    let died = died.refused(&["kernel.died"]);
    assert_eq!((died.get("status"), died.get("execution_count")), (&json!("died"), &json!(1)));
    assert_eq!(told(&desk, &died).await, (json!("error"), json!("KernelDied")));
    let caught = "import time\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('cleaned up')";
    let caught = run(&desk, caught, 1).await.refused(&["execution.timeout"]);
    assert_eq!(told(&desk, &caught).await, (json!("error"), json!("ExecutionTimeout")));
    let saved = desk.read("nb.ipynb")["cells"].to_string();
    assert!(saved.contains("bye") && saved.contains("cleaned up"), "{saved}");
    validate_notebook(&desk.path("nb.ipynb"));
}

#[tokio::test]
async fn code_that_goes_on_after_its_interrupt_is_running_until_it_ends() {
    let desk = desk().await;
    let stubborn = "import time\nend = time.time() + 7\nwhile time.time() < end:\n    try: time.sleep(0.2)\n    except KeyboardInterrupt: pass";
    let stubborn = run(&desk, stubborn, 1).await.refused(&["kernel.busy"]).says("ran longer than 1 s");
    assert_eq!(told(&desk, &stubborn).await.0, "running");
    run(&desk, "print('next')", 20).await.ok();
    let until = Instant::now() + Duration::from_secs(10);
    while told(&desk, &stubborn).await.0 == "running" {
        assert!(Instant::now() < until, "it has ended");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(told(&desk, &stubborn).await, (json!("error"), json!("ExecutionTimeout")));
}

#[tokio::test]
async fn an_error_is_an_error_wherever_the_kernel_tells_it() {
    let desk = desk().await;
    for (source, name) in [
        ("%nosuch", "UsageError"),
        ("class W:\n    def __repr__(self): raise ValueError('no repr')\nW()", "ValueError"),
        ("raise ValueError('\\ud800 lone')", "UnicodeEncodeError"),
        ("get_ipython().run_cell('1/0')", "ZeroDivisionError"),
    ] {
        let failed = run(&desk, source, 20).await.ok();
        assert_eq!(
            (failed.get("status"), &failed.get("exception")["ename"]),
            (&json!("error"), &json!(name)),
            "{source}"
        );
        assert!(failed.outputs().contains(name), "{source}: {}", failed.outputs());
        assert_eq!(told(&desk, &failed).await, (json!("error"), json!(name)), "{source}");
    }
    validate_notebook(&desk.path("nb.ipynb"));
}

#[tokio::test]
async fn help_and_proposed_cells_are_read() {
    let desk = desk().await;
    run(&desk, "len?", 20).await.ok().says("Return the number of items");
    run(&desk, "get_ipython().set_next_input('x = 1')", 20).await.ok().says("x = 1");
}

#[tokio::test]
async fn a_display_is_updated_from_another_call_of_its_kernel() {
    let desk = desk().await;
    let shown = run(&desk, "shown = display('first', display_id='d')", 20).await.ok();
    let update = json!({"code": "shown.update('second')", "notebook_name": "nb"});
    desk.client.call("execute_code", update).await.ok();
    let read = desk.ok("read_cell", json!({"cell_id": shown.get("cell")["id"]})).await;
    assert!(read.outputs().contains("'second'"), "{}", read.outputs());
    let saved = desk.read("nb.ipynb")["cells"][0]["outputs"].to_string();
    assert!(saved.contains("second") && !saved.contains("first"), "{saved}");
}

#[tokio::test]
async fn code_that_ends_its_kernel_is_told_and_the_next_run_finds_a_new_one() {
    let desk = desk().await;
    run(&desk, "kept = 1\nexit()", 20).await.ok().says("variables are lost");
    assert_eq!(run(&desk, "'kept' in globals()", 20).await.ok().outputs(), "False");
}

#[tokio::test]
async fn a_kernel_that_dies_or_freezes_while_nothing_runs_is_told_of_the_next_call() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    let execute =
        async |code: &str, timeout: u64| client.call("execute_code", json!({"code": code, "timeout": timeout})).await;
    let kernel = || {
        let kernels = marked(gateway.data());
        kernels.into_iter().find(|process| process.command.contains("start_kernel.py")).expect("a kernel runs")
    };
    execute("kept = 1", 20).await.ok();
    kernel().kill();
    // Whether its death is known by now or not: it is told, or a new kernel ran it and says so.
    let next = execute("print('kept' in globals())", 20).await;
    if next.is_error() {
        assert_eq!((next.code(), next.get("status")), ("kernel.died", &json!("died")));
        assert!(next.text().contains("before this was seen to begin"), "{}", next.text());
        assert_eq!(execute("print('kept' in globals())", 20).await.ok().outputs(), "False\n");
    } else {
        assert_eq!(next.outputs(), "False\n");
        assert!(next.text().contains("restarted since"), "{}", next.text());
    }
    signal(kernel().pid, "STOP");
    let begun = Instant::now();
    let frozen = client.call_within(Duration::from_secs(50), "execute_code", json!({"code": "print(1)", "timeout": 2}));
    frozen.await.refused(&["kernel.busy"]).says("did not begin it");
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    signal(kernel().pid, "CONT");
    assert_eq!(execute("print('thawed')", 20).await.ok().outputs(), "thawed\n");
}
