//! What calls through the gateway cost, beside a bare kernel channel to the same kind of Jupyter and beside the Python
//! server, in one run. The contenders take turns call by call, so that what else happens on the machine hits all.

mod channel;
mod contenders;
mod environment;
#[path = "../harness/mod.rs"]
mod harness;

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use serde_json::{Value, json};
use tempfile::TempDir;

use channel::Channel;
use contenders::{Jupyter, Kind, PythonServer};
use harness::gateway::Gateway;
use harness::mcp::Client;
use harness::table::{Sample, Table, most};

const CODE: &str = "1+1";
const WARM_UP: usize = 20;
/// How often a gateway is started, or a sandbox launched, to time that.
const STARTS: usize = 7;
/// A call of the Python server takes a second, so it gets fewer.
const PYTHON_CALLS: usize = 20;
/// Until a process that nobody calls has come to rest.
const REST: Duration = Duration::from_secs(3);

#[derive(Parser)]
struct Arguments {
    /// Rounds; each calls every contender once
    #[arg(long, default_value_t = 500)]
    rounds: usize,
    /// Leave the Python server out
    #[arg(long)]
    without_python: bool,
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("this measures: run it with `cargo bench --bench calls`");
        return Ok(());
    }
    // Another one may be installed: any will do for plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = TempDir::new()?;
    let mut table = Table::default();
    starts(&mut table, &folder).await?;

    let gateway = Gateway::start(&folder.path().join("gateway")).await?;
    tokio::time::sleep(REST).await;
    table.figure("cellgate: idle memory", gateway.memory()?, most(30.0, "MB"));
    let client = Client::connect(&gateway.url).await?;
    launches(&mut table, &client).await?;
    let jupyter = Jupyter::start(&gateway.sandbox_python()?, Kind::Sandbox, &folder.path().join("jupyter")).await?;
    let channel = Channel::open(&jupyter.url).await?;
    let python = if arguments.without_python { None } else { Some(Python::start(&mut table, &folder).await?) };

    let mut calls =
        Calls { client, channel, python: python.as_ref().map(|python| &python.client), samples: Samples::default() };
    calls.take_turns(arguments.rounds).await?;
    calls.samples.report(&mut table);
    table.figure("cellgate: memory after the calls", gateway.memory()?, most(30.0, "MB"));
    sizes(&mut table, "cellgate", &calls.client, true).await?;
    if let Some(python) = &python {
        table.figure("jupyter-mcp-server: memory after the calls", python.server.memory()?, None);
        sizes(&mut table, "jupyter-mcp-server", &python.client, false).await?;
    }
    println!("{table}");
    Ok(())
}

/// Times from the start of a gateway's process to its first answer.
async fn starts(table: &mut Table, folder: &TempDir) -> anyhow::Result<()> {
    let mut sample = Sample::default();
    for number in 0..STARTS {
        let begun = Instant::now();
        let gateway = Gateway::start(&folder.path().join(format!("start-{number}"))).await?;
        Client::connect(&gateway.url).await?.tools().await?;
        sample.push(begun.elapsed());
    }
    table.sample("cellgate: start to answered tools/list", &sample, most(200.0, "ms at p50"));
    Ok(())
}

/// Times from a call of `launch_sandbox` to its answer, with the environment built; leaves a sandbox and a notebook.
async fn launches(table: &mut Table, client: &Client) -> anyhow::Result<()> {
    let mut sample = Sample::default();
    // The first one may have to build the environment.
    for number in 0..=STARTS {
        let name = format!("bench-{number}");
        let launched = client.call("launch_sandbox", &json!({"sandbox_name": name, "timeout": 900})).await?;
        if number > 0 {
            sample.push(launched.took);
        }
        client.call("terminate_sandbox", &json!({"sandbox_name": name})).await?;
    }
    table.sample("cellgate: launch_sandbox to ready", &sample, most(1500.0, "ms at p50"));
    client.call("launch_sandbox", &json!({"sandbox_name": "bench", "timeout": 60})).await?;
    open_notebook(client).await
}

async fn open_notebook(client: &Client) -> anyhow::Result<()> {
    let arguments = json!({"notebook_name": "bench", "notebook_path": "bench.ipynb", "mode": "create"});
    client.call("use_notebook", &arguments).await.map(drop)
}

async fn sizes(table: &mut Table, name: &str, client: &Client, judged: bool) -> anyhow::Result<()> {
    let tools = client.tools().await?;
    let paid = |tool: &Value| {
        let part = |key: &str| tool[key].clone();
        json!({"name": part("name"), "description": part("description"), "inputSchema": part("inputSchema")})
    };
    let paid: usize = tools.iter().map(|tool| paid(tool).to_string().len()).sum();
    let whole = json!({"tools": tools}).to_string().len();
    let limit = |kilobytes: f64| if judged { most(kilobytes, "KB") } else { None };
    table.figure(&format!("{name}: tools/list, what a model pays for"), kilobytes(paid), limit(16.0));
    table.figure(&format!("{name}: tools/list, the whole"), kilobytes(whole), limit(28.0));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a few kilobytes")]
fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1024.0
}

/// The Python server, beside a Jupyter with what it needs.
struct Python {
    client: Client,
    server: PythonServer,
    _jupyter: Jupyter,
}

impl Python {
    async fn start(table: &mut Table, folder: &TempDir) -> anyhow::Result<Self> {
        let environment = environment::python().await?;
        let home = folder.path().join("collaboration");
        let jupyter = Jupyter::start(&environment, Kind::Collaboration, &home).await?;
        let begun = Instant::now();
        let server = PythonServer::start(&environment, &jupyter.url, &home).await?;
        let client = Client::connect(&server.url).await?;
        client.tools().await?;
        let mut sample = Sample::default();
        sample.push(begun.elapsed());
        table.sample("jupyter-mcp-server: start to answered tools/list", &sample, None);
        tokio::time::sleep(REST).await;
        table.figure("jupyter-mcp-server: idle memory", server.memory()?, None);
        open_notebook(&client).await?;
        Ok(Self { client, server, _jupyter: jupyter })
    }
}

struct Calls<'a> {
    client: Client,
    channel: Channel,
    python: Option<&'a Client>,
    samples: Samples,
}

#[derive(Default)]
struct Samples {
    channel: Sample,
    gateway: Sample,
    python: Sample,
    list_sandboxes: Sample,
    list_notebooks: Sample,
    python_list_notebooks: Sample,
}

impl Calls<'_> {
    async fn take_turns(&mut self, rounds: usize) -> anyhow::Result<()> {
        for round in 0..WARM_UP {
            self.take_turn(round, false).await?;
        }
        self.samples = Samples::default();
        let every = rounds.div_ceil(PYTHON_CALLS).max(1);
        for round in 0..rounds {
            self.take_turn(round, round.is_multiple_of(every)).await?;
        }
        Ok(())
    }

    async fn take_turn(&mut self, round: usize, with_python: bool) -> anyhow::Result<()> {
        // Whoever comes first finds the processor's caches filled by others.
        if round.is_multiple_of(2) {
            self.run_on_channel().await?;
            self.run_through_gateway().await?;
        } else {
            self.run_through_gateway().await?;
            self.run_on_channel().await?;
        }
        let samples = &mut self.samples;
        samples.list_sandboxes.push(self.client.call("list_sandboxes", &json!({})).await?.took);
        samples.list_notebooks.push(self.client.call("list_notebooks", &json!({})).await?.took);
        let Some(python) = self.python else { return Ok(()) };
        samples.python_list_notebooks.push(python.call("list_notebooks", &json!({})).await?.took);
        if with_python {
            let run = python.call("execute_code", &json!({"code": CODE})).await?;
            ensure!(run.result["content"].to_string().contains('2'), "the Python server answered {}", run.result);
            samples.python.push(run.took);
        }
        Ok(())
    }

    async fn run_on_channel(&mut self) -> anyhow::Result<()> {
        self.samples.channel.push(self.channel.run(CODE, "2").await?);
        Ok(())
    }

    async fn run_through_gateway(&mut self) -> anyhow::Result<()> {
        let run = self.client.call("execute_code", &json!({"code": CODE})).await?;
        ensure!(run.result["structuredContent"]["outputs"][0] == "2", "the gateway answered {}", run.result);
        self.samples.gateway.push(run.took);
        Ok(())
    }
}

impl Samples {
    fn report(&self, table: &mut Table) {
        let (gateway, channel) = (&self.gateway, &self.channel);
        table.sample("execute_code(\"1+1\"): bare kernel channel", channel, None);
        table.sample("execute_code(\"1+1\"): cellgate", gateway, None);
        if !self.python.is_empty() {
            table.sample("execute_code(\"1+1\"): jupyter-mcp-server", &self.python, None);
            let times = self.python.percentile(0.5) / gateway.percentile(0.5);
            table.at_least("execute_code(\"1+1\"): times as fast as jupyter-mcp-server", times, 50.0);
        }
        let times = gateway.percentile(0.5) / channel.percentile(0.5);
        table.figure("execute_code(\"1+1\"): times the bare channel", times, most(1.5, ""));
        let more = |share: f64| gateway.percentile(share) - channel.percentile(share);
        table.share("own share: execute_code, more than the bare channel", [more(0.5), more(0.99)], "");
        let listed = &self.list_sandboxes;
        let times = [listed.percentile(0.5), listed.percentile(0.99)];
        table.share("own share: list_sandboxes, which asks no Jupyter", times, &listed.len().to_string());
        table.sample("list_notebooks: cellgate", &self.list_notebooks, None);
        if !self.python_list_notebooks.is_empty() {
            table.sample("list_notebooks: jupyter-mcp-server", &self.python_list_notebooks, None);
        }
    }
}
