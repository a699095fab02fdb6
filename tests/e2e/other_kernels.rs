//! Kernels of other languages, and those that can't run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Desk, Gateway, LAUNCH, Reply, not_run, validate_notebook};

/// Opens a notebook of a kernel.
async fn notebook_of(desk: &Desk, kernel: &str) {
    desk.write("nb.ipynb", notebook(kernel).to_string());
    desk.open("nb").await.ok();
}

fn notebook(kernel: &str) -> Value {
    let kernelspec = json!({"name": kernel, "display_name": kernel, "language": kernel});
    json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernelspec}, "cells": []})
}

async fn run(desk: &Desk, source: &str) -> Reply {
    let cell = json!({"cell_index": -1, "cell_source": source, "timeout": 20});
    desk.client.call("insert_execute_code_cell", cell).await
}

#[tokio::test]
async fn r_code_runs_with_its_tables_plots_warnings_and_errors() {
    if !std::path::Path::new("/usr/share/jupyter/kernels/ir").exists() {
        return not_run("the R kernel", "it is not installed (Debian: r-cran-irkernel)");
    }
    let desk = Desk::new().await;
    notebook_of(&desk, "ir").await;
    assert_eq!(run(&desk, "x <- 41\nprint(x + 1)").await.ok().outputs(), "[1] 42\n");
    let streams = run(&desk, "cat('a\\n'); message('err'); cat('b\\n')").await.ok().outputs();
    assert!(streams.contains('a') && streams.contains("[stderr] err") && streams.contains('b'), "{streams}");
    let table = run(&desk, "data.frame(n = 1:2, s = c('x', 'y'))").await.ok().outputs();
    assert!(table.contains("| 1 | x |"), "{table}");
    assert_eq!(run(&desk, "plot(1:10)").await.ok().images().len(), 1);
    let failed = run(&desk, "stop('bad row')").await.ok();
    assert_eq!(failed.get("status"), "error");
    assert!(failed.outputs().contains("bad row"), "{}", failed.outputs());
    assert!(run(&desk, "for (i in 1:3) cat('step', i, '\\r')").await.ok().outputs().contains("step 3"));
    let slow = json!({"cell_index": -1, "cell_source": "Sys.sleep(60)", "timeout": 1});
    desk.client.call("insert_execute_code_cell", slow).await.refused(&["execution.timeout"]);
    assert_eq!(run(&desk, "cat(x)").await.ok().outputs(), "41");
    validate_notebook(&desk.path("nb.ipynb"));
}

#[tokio::test]
async fn input_is_refused_in_r_too_and_the_kernel_goes_on() {
    if !std::path::Path::new("/usr/share/jupyter/kernels/ir").exists() {
        return not_run("input in the R kernel", "it is not installed (Debian: r-cran-irkernel)");
    }
    let desk = Desk::new().await;
    notebook_of(&desk, "ir").await;
    run(&desk, "x <- 41").await.ok();
    let begun = Instant::now();
    let refused = run(&desk, "cat('before\\n'); y <- readline('name? ')").await.ok();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(refused.get("status"), "error");
    assert!(refused.outputs().contains("before") && refused.outputs().contains("name? "), "{}", refused.outputs());
    assert_eq!(run(&desk, "cat(x)").await.ok().outputs(), "41");
}

#[tokio::test]
async fn a_kernel_whose_program_can_not_run_is_told_within_ten_seconds_with_its_last_words() {
    let gateway = Gateway::start();
    let client = Client::connect(gateway.url()).await;
    let launched = client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    let id = launched.get("sandbox")["id"].as_str().expect("an id").to_owned();
    let spec = gateway.data().join("sandboxes").join(id).join("share/jupyter/kernels/broken");
    std::fs::create_dir_all(&spec).expect("a folder");
    let argv: Value = json!(["sh", "-c", "echo it lacks libmissing.so >&2; exit 3", "{connection_file}"]);
    let kernel = json!({"argv": argv, "display_name": "Broken", "language": "none"});
    std::fs::write(spec.join("kernel.json"), kernel.to_string()).expect("written");
    std::fs::write(gateway.files("box").join("nb.ipynb"), notebook("broken").to_string()).expect("written");
    client.call("use_notebook", json!({"notebook_name": "nb", "notebook_path": "nb.ipynb"})).await.ok();
    let begun = Instant::now();
    let cell = json!({"cell_index": -1, "cell_source": "1"});
    let refused = client.call("insert_execute_code_cell", cell).await.refused(&["kernel.died"]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(
        refused.text().contains("can't run here") && refused.text().contains("libmissing.so"),
        "{}",
        refused.text()
    );
}
