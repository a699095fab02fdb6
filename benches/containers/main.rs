//! What sandboxes in containers cost: a launch, thirty at once, an end, and the memory of one that does nothing. Beside them
//! the engine's own `docker run` of the same image, and a local process.

#[path = "../harness/mod.rs"]
mod harness;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::json;
use tempfile::TempDir;

use harness::gateway::Gateway;
use harness::mcp::Client;
use harness::table::{Sample, Table, most};

const LAUNCHES: usize = 20;
const AT_ONCE: usize = 30;

#[derive(Parser)]
struct Arguments {
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    if !Arguments::parse().bench {
        println!("this measures: run it with `cargo bench --bench containers`");
        return Ok(());
    }
    // Another one may be installed: any will do for plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (folder, mut table) = (TempDir::new()?, Table::default());
    launches(&mut table, folder.path()).await?;
    many(&mut table, &folder.path().join("many")).await?;
    println!("{table}");
    Ok(())
}

/// Launches, one after the other: a container's, the engine's own start of one, and a process's, in turn.
async fn launches(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let containers = Gateway::start_with(&folder.join("docker"), &["--variant", "docker"]).await?;
    let processes = Gateway::start(&folder.join("process")).await?;
    let (docker, process) = (Client::connect(&containers.url).await?, Client::connect(&processes.url).await?);
    let launch = json!({"sandbox_name": "box", "timeout": 900});
    let first = docker.call("launch_sandbox", &launch).await?;
    let image = first.result["structuredContent"]["sandbox"]["image"].as_str().context("an image")?.to_owned();
    let id = first.result["structuredContent"]["sandbox"]["id"].as_str().context("an id")?.to_owned();
    let memory = memory(&id)?;
    process.call("launch_sandbox", &launch).await?;
    let end = json!({"sandbox_name": "box"});
    let (mut ours, mut ends, mut bare, mut local) =
        (Sample::default(), Sample::default(), Sample::default(), Sample::default());
    for client in [&docker, &process] {
        client.call("terminate_sandbox", &end).await?;
    }
    for _ in 0..LAUNCHES {
        ours.push(docker.call("launch_sandbox", &launch).await?.took);
        ends.push(docker.call("terminate_sandbox", &end).await?.took);
        bare.push(bare_start(&image)?);
        local.push(process.call("launch_sandbox", &launch).await?.took);
        process.call("terminate_sandbox", &end).await?;
    }
    table.sample("launch to ready: a container", &ours, most(1500.0, "ms at p50"));
    table.sample("docker run of the same image, a program that does nothing", &bare, None);
    table.sample("launch to ready: a local process", &local, None);
    table.sample("terminate: a container", &ends, None);
    table.figure("a container that does nothing, in MB", memory, most(100.0, "MB"));
    prune(&folder.join("docker"))
}

/// How long the engine takes to run nothing in a container with the same image.
fn bare_start(image: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    docker(&["run", "--rm", "--entrypoint", "/bin/true", image])?;
    Ok(begun.elapsed())
}

/// What a sandbox's container takes, in MB, page cache not counted.
fn memory(id: &str) -> anyhow::Result<f64> {
    let shown = docker(&["stats", "--no-stream", "--format", "{{.MemUsage}}", &format!("cellgate-{id}")])?;
    let used = shown.split('/').next().unwrap_or_default().trim();
    used.trim_end_matches("MiB").parse().with_context(|| format!("megabytes: {shown}"))
}

/// Thirty at the same moment.
async fn many(table: &mut Table, data: &Path) -> anyhow::Result<()> {
    let number = AT_ONCE.to_string();
    let gateway = Gateway::start_with(data, &["--variant", "docker", "--max-sandboxes", &number]).await?;
    let begun = Instant::now();
    let launches = (0..AT_ONCE).map(|at| {
        let url = gateway.url.clone();
        async move {
            let client = Client::connect(&url).await?;
            client.call("launch_sandbox", &json!({"sandbox_name": format!("box-{at}")})).await
        }
    });
    let mut took = Sample::default();
    for launched in futures_util::future::join_all(launches).await {
        took.push(launched?.took);
    }
    let all = begun.elapsed().as_secs_f64();
    let client = Client::connect(&gateway.url).await?;
    let listed = client.call("list_sandboxes", &json!({})).await?;
    let records = listed.result["structuredContent"]["result"].as_array().cloned().unwrap_or_default();
    let running = records.iter().filter(|record| record["status"] == "running").count();
    ensure!(running == AT_ONCE, "{running} of {AT_ONCE} are ready");
    for at in 0..AT_ONCE {
        client.call("terminate_sandbox", &json!({"sandbox_name": format!("box-{at}")})).await?;
    }
    table.sample("thirty launches at once: each", &took, None);
    table.figure("thirty launches at once: all ready, in s", all, None);
    prune(data)
}

/// Deletes the volumes of the gateway on a data directory.
fn prune(data: &Path) -> anyhow::Result<()> {
    let program = env!("CARGO_BIN_EXE_cellgate");
    let pruned =
        Command::new(program).args(["prune", "--yes", "--variant", "docker", "--data-dir"]).arg(data).output()?;
    ensure!(pruned.status.success(), "{}", String::from_utf8_lossy(&pruned.stderr));
    Ok(())
}

fn docker(arguments: &[&str]) -> anyhow::Result<String> {
    let ran = Command::new("docker").args(arguments).output().context("docker can't be run")?;
    ensure!(ran.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}
