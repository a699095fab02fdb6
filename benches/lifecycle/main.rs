//! What records, pointers and restarts cost: a list of many sandboxes, a start with many to go on with, and the saving of a
//! pointer, each beside the same without.

#[path = "../harness/mod.rs"]
mod harness;

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use cellgate::database::Database;
use clap::Parser;
use serde_json::json;
use tempfile::TempDir;

use harness::gateway::Gateway;
use harness::mcp::Client;
use harness::table::{Sample, Table, most};

const RECORDS: usize = 1000;
const CALLS: usize = 300;
const STARTS: usize = 7;

#[derive(Parser)]
struct Arguments {
    /// Sandboxes that run when the gateway is killed; each takes some 70 MB
    #[arg(long, default_value_t = 200)]
    sandboxes: usize,
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("this measures: run it with `cargo bench --bench lifecycle`");
        return Ok(());
    }
    // Another one may be installed: any will do for plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (folder, mut table) = (TempDir::new()?, Table::default());
    lists(&mut table, &folder.path().join("lists")).await?;
    pointers(&mut table, &folder.path().join("pointers")).await?;
    restarts(&mut table, &folder.path().join("restarts"), arguments.sandboxes).await?;
    println!("{table}");
    Ok(())
}

/// `list_sandboxes` of a caller with ten records, and with a thousand.
async fn lists(table: &mut Table, data: &Path) -> anyhow::Result<()> {
    for (records, target) in [(10, None), (RECORDS, most(5.0, "ms at p50"))] {
        let data = data.join(records.to_string());
        let gateway = Gateway::start(&data).await?;
        let client = Client::connect(&gateway.url).await?;
        write_records(&data, records)?;
        let mut sample = Sample::default();
        for call in 0..CALLS + 20 {
            let listed = client.call("list_sandboxes", &json!({})).await?;
            // A list of a thousand is cut to the limit of an answer; it is read and built all the same.
            let count = listed.result["structuredContent"]["result"].as_array().map_or(0, Vec::len);
            ensure!(count >= records.min(200), "it lists {count}");
            if call >= 20 {
                sample.push(listed.took);
            }
        }
        table.sample(&format!("list_sandboxes: {records} records"), &sample, target);
    }
    Ok(())
}

/// Records of sandboxes that ended a moment ago.
fn write_records(data: &Path, records: usize) -> anyhow::Result<()> {
    let now = jiff::Timestamp::now().to_string();
    Database::open(data)?.with(|connection| {
        let transaction = connection.transaction()?;
        for number in 0..records {
            transaction.execute(
                "INSERT INTO sandboxes (id, tenant, principal, name, variant, generation, instance, status, status_reason,
                    created_at, last_activity_at, digest, files)
                 VALUES (?1, 'local', 'local', ?2, 'process', 1, 'i', 'terminated', 'terminated by its owner', ?3, ?3, 'd', ?4)",
                (format!("s-{number:08}"), format!("sandbox-{number}"), &now, format!("/workspaces/local/sandbox-{number}")),
            )?;
        }
        transaction.commit()
    })?;
    Ok(())
}

/// A call that moves a pointer, which is saved before the answer, beside the same call that moves none.
async fn pointers(table: &mut Table, data: &Path) -> anyhow::Result<()> {
    let gateway = Gateway::start(data).await?;
    let client = Client::connect(&gateway.url).await?;
    for name in ["one", "two"] {
        client.call("launch_sandbox", &json!({"sandbox_name": name, "timeout": 900})).await?;
    }
    let (mut moved, mut same) = (Sample::default(), Sample::default());
    for _ in 0..CALLS {
        for name in ["one", "two"] {
            let arguments = json!({"sandbox_name": name});
            moved.push(client.call("use_sandbox", &arguments).await?.took);
            same.push(client.call("use_sandbox", &arguments).await?.took);
        }
    }
    table.sample("use_sandbox: the pointer stays", &same, None);
    table.sample("use_sandbox: the pointer moves, and is saved", &moved, None);
    table.figure("a saved pointer, in ms at p50", moved.percentile(0.5) - same.percentile(0.5), None);
    Ok(())
}

/// From the start of a gateway to its first answer, which lists the sandboxes that its killed predecessor left running.
async fn restarts(table: &mut Table, data: &Path, sandboxes: usize) -> anyhow::Result<()> {
    let number = (sandboxes + 1).to_string();
    let settings = ["--max-sandboxes", &number, "--max-sandboxes-in-all", &number];
    let mut gateway = Gateway::start_with(data, &settings).await?;
    let client = Client::connect(&gateway.url).await?;
    for number in 0..sandboxes {
        let launch = json!({"sandbox_name": format!("sandbox-{number}"), "timeout": 900});
        client.call("launch_sandbox", &launch).await?;
    }
    let (mut with_them, mut without) = (Sample::default(), Sample::default());
    for start in 0..STARTS {
        gateway.kill()?;
        let begun = Instant::now();
        gateway = Gateway::start_with(data, &settings).await?;
        let client = Client::connect(&gateway.url).await?;
        let listed = client.call("list_sandboxes", &json!({})).await?;
        with_them.push(begun.elapsed());
        let records = listed.result["structuredContent"]["result"].as_array().cloned().unwrap_or_default();
        let running = records.iter().filter(|record| record["status"] == "running").count();
        ensure!(running == sandboxes, "{running} of {sandboxes} go on");
        let last = json!({"code": "6 * 7", "sandbox_name": format!("sandbox-{}", start % sandboxes)});
        let ran = client.call("execute_code", &last).await?;
        ensure!(ran.result["structuredContent"]["outputs"][0] == "42", "it answers {}", ran.result);
        let begun = Instant::now();
        let empty = Gateway::start(&data.join(format!("empty-{start}"))).await?;
        Client::connect(&empty.url).await?.call("list_sandboxes", &json!({})).await?;
        without.push(begun.elapsed());
    }
    table.sample("start to first list: nothing to go on with", &without, None);
    let name = format!("start to first list: {sandboxes} sandboxes go on");
    table.sample(&name, &with_them, most(200.0, "ms at p50"));
    table.figure("memory with them, in MB", gateway.memory()?, None);
    Ok(())
}
