//! A network that fails between the gateway and a Jupyter server.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Client, Desk, ForeignJupyter, Network, Running, Wire, not_run, read_json, shared};

/// Prints ticks for some seconds.
fn ticking(seconds: u32) -> String {
    format!(
        "import time\nfor n in range({seconds} * 5):\n    print('tick', n, flush=True)\n    time.sleep(0.2)\nprint('end')"
    )
}

async fn attach(client: &Client, url: &str, server: &ForeignJupyter) {
    client.call("connect_to_jupyter", json!({"jupyter_url": url, "jupyter_token": server.token()})).await.ok();
    client.call("use_notebook", json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"})).await.ok();
}

/// Runs a cell until it has put something out.
async fn begun(client: &Client, code: &str) -> Running {
    let cell = json!({"cell_index": -1, "cell_source": code, "progress_interval": 1});
    let mut running = client.start("insert_execute_code_cell", cell);
    running.progress_with("tick").await;
    running
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_run_is_made_again_and_the_gap_is_marked() {
    let desk = Desk::new().await;
    let server = ForeignJupyter::start(shared().data()).await;
    let wire = Wire::to(server.name().parse().expect("an address")).await;
    let url = format!("http://{}/their/own", wire.address());
    attach(&desk.client, &url, &server).await;
    let running = begun(&desk.client, &ticking(4)).await;
    wire.cut();
    tokio::time::sleep(Duration::from_millis(500)).await;
    wire.mend();
    let ran = running.wait().await.ok();
    assert!(ran.outputs().contains("tick 0") && ran.outputs().contains("end"), "{}", ran.outputs());
    assert!(ran.outputs().contains("some of its output may be missing"), "{}", ran.outputs());
    assert!(read_json(&server.root().join("n.ipynb")).to_string().contains("may be missing"));
}

#[tokio::test]
async fn a_network_that_goes_away_is_told_within_ten_seconds_and_a_short_gap_costs_nothing() {
    let network = match Network::new() {
        Ok(network) => network,
        Err(reason) => return not_run("a network that goes away", &reason),
    };
    let desk = Desk::new().await;
    let client = &desk.client;
    let server = ForeignJupyter::start_at(shared().data(), network.address(), |program| network.command(program)).await;
    attach(client, server.url(), &server).await;

    let running = begun(client, &ticking(5)).await;
    network.drop_packets();
    tokio::time::sleep(Duration::from_secs(1)).await;
    network.pass_packets();
    let ran = running.wait().await.ok();
    let ticks = ran.outputs().lines().filter(|line| line.starts_with("tick")).count();
    assert_eq!(ticks, 25, "{}", ran.outputs());

    let running = begun(client, &ticking(60)).await;
    network.drop_packets();
    let lost = Instant::now();
    let told = running.wait().await.refused(&["jupyter.unreachable"]);
    assert!(lost.elapsed() < Duration::from_secs(10), "{:?}", lost.elapsed());
    assert!(
        told.outputs().contains("tick 0") && told.text().contains("whether it finished is unknown"),
        "{}",
        told.text()
    );
    network.pass_packets();
    // The kernel is still at it: that is said, and a restart helps.
    let busy = json!({"code": "print(1)", "notebook_name": "n", "timeout": 1});
    client.call("execute_code", busy).await.refused(&["kernel.busy"]);
    client.call("restart_notebook", json!({"notebook_name": "n"})).await.ok();
    client.call("execute_code", json!({"code": "print('again')", "notebook_name": "n"})).await.ok().says("again");
}
