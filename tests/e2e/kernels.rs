//! Which kernel runs what, and restarting it.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Client, Desk, eventually, mentioning, shared};

async fn kernel_of(desk: &Desk, notebook: &str) -> String {
    let rows = desk.ok("list_notebooks", json!({})).await;
    let row = rows.items().iter().find(|row| row["Name"] == notebook).expect("it is open");
    row["Kernel_ID"].as_str().unwrap().to_owned()
}

async fn kernels(desk: &Desk) -> Vec<String> {
    let rows = desk.ok("list_kernels", json!({})).await;
    rows.items().iter().map(|row| row["ID"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn opening_a_notebook_starts_no_kernel_and_running_a_cell_starts_one() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    assert_eq!(kernel_of(&desk, "nb").await, "-");
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "a = 1"})).await;
    let kernel = kernel_of(&desk, "nb").await;
    assert!(kernels(&desk).await.contains(&kernel));
    desk.ok("insert_execute_code_cell", json!({"cell_index": 1, "cell_source": "a"})).await.says("1");
    assert_eq!(kernel_of(&desk, "nb").await, kernel);
}

#[tokio::test]
async fn a_running_kernel_can_be_bound_and_a_new_one_asked_for() {
    let desk = Desk::new().await;
    desk.create("one").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "a = 'from one'"})).await;
    let kernel = kernel_of(&desk, "one").await;
    let path = |name: &str| format!("{}/{name}.ipynb", desk.folder());
    let bound = json!({"notebook_name": "two", "notebook_path": path("two"), "mode": "create", "kernel_id": kernel});
    desk.ok("use_notebook", bound).await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "a"})).await.says("from one");
    assert_eq!(kernel_of(&desk, "two").await, kernel);
    let new = json!({"notebook_name": "three", "notebook_path": path("three"), "mode": "create", "kernel_id": "new"});
    desk.ok("use_notebook", new).await;
    let third = kernel_of(&desk, "three").await;
    assert!(third != kernel && third != "-", "{third}");
    let none = json!({"notebook_name": "four", "notebook_path": path("four"), "mode": "create", "kernel_id": "no-such-kernel"});
    desk.refused(&["kernel.not_found"], "use_notebook", none).await;
    // Bound kernels stay with their owner when the notebook is closed.
    desk.ok("unuse_notebook", json!({"notebook_name": "two"})).await;
    assert!(kernels(&desk).await.contains(&kernel));
    desk.ok("unuse_notebook", json!({"notebook_name": "three"})).await;
    assert!(!kernels(&desk).await.contains(&third), "the kernel that Cellgate started is left");
}

#[tokio::test]
async fn code_can_be_sent_to_a_kernel_by_id_and_to_a_notebook_by_name() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "who = 'the notebook'"})).await;
    let kernel = kernel_of(&desk, "nb").await;
    for arguments in [json!({"kernel_id": kernel}), json!({"notebook_name": "nb"}), json!({})] {
        let mut arguments = arguments;
        arguments["code"] = json!("print(who)");
        assert_eq!(desk.ok("execute_code", arguments).await.outputs().trim(), "the notebook");
    }
    let scratch = desk.ok("execute_code", json!({"code": "print('who' in globals())", "sandbox_name": "shared"})).await;
    assert_eq!(scratch.outputs().trim(), "False");
    desk.refused(&["kernel.not_found"], "execute_code", json!({"code": "1", "kernel_id": "nope"})).await;
    let elsewhere = json!({"code": "1", "notebook_name": "nb", "sandbox_name": "nope"});
    desk.refused(&["sandbox.not_found", "arguments.invalid"], "execute_code", elsewhere).await;
}

#[tokio::test]
async fn the_scratch_kernel_is_kept_for_its_caller_alone() {
    let (desk, other) = (Desk::new().await, Desk::new().await);
    desk.ok("execute_code", json!({"code": "x = 'mine'"})).await;
    assert_eq!(desk.ok("execute_code", json!({"code": "print(x)"})).await.outputs().trim(), "mine");
    let stranger = other.ok("execute_code", json!({"code": "print('x' in globals())"})).await;
    assert_eq!(stranger.outputs().trim(), "False");
}

#[tokio::test]
async fn a_restart_loses_the_state_ends_the_children_and_goes_on() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let code = "import subprocess\nchild = subprocess.Popen(['sleep', '98761'])\nx = 1";
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code})).await;
    assert_eq!(mentioning("sleep 98761").len(), 1);
    desk.ok("restart_notebook", json!({"notebook_name": "nb"})).await;
    eventually("the kernel's child ends", Duration::from_secs(10), || mentioning("sleep 98761").is_empty()).await;
    let fresh = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "x"})).await;
    assert_eq!((&fresh.get("exception")["ename"], fresh.get("execution_count")), (&json!("NameError"), &json!(1)));
}

#[tokio::test]
async fn a_restart_ends_the_run_under_way_and_says_why() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let code = "import time\nprint('began', flush=True)\ntime.sleep(600)";
    let mut running = desk
        .client
        .start("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    desk.ok("restart_notebook", json!({"notebook_name": "nb"})).await;
    let reply = running.wait().await;
    assert!(reply.is_error() && reply.text().contains("restart"), "{}", reply.text());
    assert!(reply.outputs().contains("began"));
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "1"})).await;
}

#[tokio::test]
async fn a_kernel_that_is_not_installed_is_named_with_those_that_are() {
    let desk = Desk::new().await;
    let notebook = json!({
        "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "fortran77", "display_name": "Fortran", "language": "fortran"}},
        "cells": [{"cell_type": "code", "id": "a", "metadata": {}, "source": "1", "outputs": [], "execution_count": null}]
    });
    desk.write("odd.ipynb", notebook.to_string());
    desk.open("odd").await.ok();
    let refused = desk.refused(&["kernel.not_installed"], "execute_cell", json!({"cell_id": "a"})).await;
    assert!(refused.text().contains("fortran77") && refused.text().contains("python3"), "{}", refused.text());
    assert_eq!(desk.ok("read_cell", json!({"cell_id": "a"})).await.get("status"), "never run");
}

#[tokio::test]
async fn calls_for_one_kernel_run_in_the_order_they_came() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "order = []"})).await;
    let first = "import time\nprint('began', flush=True)\ntime.sleep(1.5)\norder.append('first')";
    let mut running =
        vec![desk.client.start("execute_code", json!({"code": first, "progress_interval": 1, "notebook_name": "nb"}))];
    running[0].progress_with("began").await;
    running.push(desk.client.start("execute_code", json!({"code": "1/0", "notebook_name": "nb"})));
    for run in running {
        run.wait().await.ok();
    }
    let path = format!("{}/nb.ipynb", desk.folder());
    let other = Client::connect(shared().url()).await;
    other.call("use_sandbox", json!({"sandbox_name": "shared"})).await.ok();
    other.call("use_notebook", json!({"notebook_name": "n", "notebook_path": path})).await.ok();
    // The same notebook is the same kernel for everyone, and an earlier error aborts nobody's run.
    let seen = other.call("execute_code", json!({"code": "print(order)", "notebook_name": "n"})).await.ok();
    assert_eq!(seen.outputs().trim(), "['first']");
}

#[tokio::test]
async fn the_listing_of_kernels_has_its_columns_and_true_states() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    desk.ok("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "1"})).await;
    let kernel = kernel_of(&desk, "nb").await;
    let rows = desk.ok("list_kernels", json!({"sandbox_name": "shared"})).await;
    let columns = ["ID", "Name", "Display_Name", "Language", "State", "Connections", "Last_Activity", "Environment"];
    assert_eq!(rows.get("columns"), &json!(columns));
    let row = rows.items().iter().find(|row| row["ID"] == kernel).expect("it is listed");
    assert_eq!((&row["Name"], &row["Language"], &row["State"]), (&json!("python3"), &json!("python"), &json!("idle")));
    let time = row["Last_Activity"].as_str().unwrap();
    assert!(time.len() == 19 && time.as_bytes()[10] == b' ', "{time}");
    let code = "import time\nprint('began', flush=True)\ntime.sleep(2)";
    let mut running = desk
        .client
        .start("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    let rows = desk.ok("list_kernels", json!({})).await;
    assert_eq!(rows.items().iter().find(|row| row["ID"] == kernel).unwrap()["State"], "busy");
    running.wait().await.ok();
}
