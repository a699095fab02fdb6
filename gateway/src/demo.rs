//! `cellgate demo`: an agent's session from launch to terminate, told so that a person enjoys
//! reading it. Everything in it is real: the gateway, the protocol, Jupyter, the plot.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client::Client;
use crate::config::Settings;
use crate::http::{self, Access};
use crate::sandbox::running_processes;
use crate::service::{Reach, Service, stop_on_signal};
use crate::telemetry::show;

const PLOT: &str = "\
import numpy as np
import matplotlib.pyplot as plt

x = np.linspace(0, 4 * np.pi, 400)
plt.figure(figsize=(6, 2.5))
plt.plot(x, np.sin(x) * np.exp(-x / 8))
plt.title('a damped wave')
plt.show()
print(f'drawn with numpy {np.__version__}')";

/// Longer texts are shown up to here.
const SHOWN: usize = 420;

/// Runs the session and prints it.
///
/// # Errors
/// When a step fails; the sandbox is ended all the same.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    crate::telemetry::start(settings.log_format, "error");
    let mut settings = settings.clone();
    let folder = settings.data_dir.clone().unwrap_or_else(|| PathBuf::from("cellgate-demo"));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("can't make the folder {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    settings.data_dir = Some(folder.clone());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}{}", listener.local_addr()?, http::ENDPOINT);
    let stop = stop_on_signal()?;
    let service = Service::open(&settings, Reach { own_machine: true, home: None }).await?;
    let fleet = service.fleet();
    let server = http::Server {
        gateway: service.gateway,
        database: service.database,
        access: Access::default(),
        drain: Duration::ZERO,
    };
    let server = tokio::spawn(server.serve(listener, stop.clone()));
    show!("Cellgate {} at {url}\n", env!("CARGO_PKG_VERSION"));
    let outcome = tokio::select! {
        outcome = session(&url, &folder) => outcome,
        () = stop.cancelled() => Err(anyhow::anyhow!("stopped before the end")),
    };
    stop.cancel();
    fleet.shutdown().await;
    server.abort();
    outcome
}

async fn session(url: &str, folder: &Path) -> anyhow::Result<()> {
    let agent = Agent { client: Client::new(url, "cellgate-demo")? };
    let launched = agent
        .step(
            "A sandbox: a Jupyter server of the agent's own.",
            "launch_sandbox",
            json!({"sandbox_name": "demo", "timeout": 120}),
        )
        .await?;
    let id = launched["structuredContent"]["sandbox"]["id"].as_str().unwrap_or_default().to_owned();
    let notebook = unused_name(&folder.join("workspaces/local/demo"));
    agent
        .step(
            "A notebook in it.",
            "use_notebook",
            json!({"notebook_name": "waves", "notebook_path": notebook, "mode": "create"}),
        )
        .await?;
    agent
        .step(
            "Some words.",
            "insert_cell",
            json!({"cell_index": -1, "cell_type": "markdown", "cell_source": "# Waves"}),
        )
        .await?;
    let run = agent
        .step(
            "A cell with a plot, written and run in one step.",
            "insert_execute_code_cell",
            json!({"cell_index": -1, "cell_source": PLOT}),
        )
        .await?;
    let plot = folder.join("plot.png");
    std::fs::write(&plot, image(&run).context("the run answered no image")?)?;
    show!("  The plot is saved: {}\n", plot.display());
    agent
        .step(
            "A mistake is an output too; the kernel keeps its variables.",
            "execute_code",
            json!({"code": "len(x) / 0"}),
        )
        .await?;
    agent.step("What the notebook holds now.", "read_notebook", json!({"notebook_name": "waves"})).await?;
    let before = running_processes(&id).len();
    agent
        .step(
            "The end: every process of the sandbox goes, its files stay.",
            "terminate_sandbox",
            json!({"sandbox_name": "demo"}),
        )
        .await?;
    let after = running_processes(&id).len();
    let path = folder.join("workspaces/local/demo").join(&notebook);
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&path).context("the notebook is not on disk")?)?;
    show!("  Processes of the sandbox: {before} before, {after} after.");
    show!("  On disk: {} ({} cells, outputs included).", path.display(), saved["cells"].as_array().map_or(0, Vec::len));
    if after > 0 {
        bail!("{after} processes are left");
    }
    show!("\nConnect your own agent: `cellgate serve`, then http://127.0.0.1:8717{}", http::ENDPOINT);
    Ok(())
}

struct Agent {
    client: Client,
}

impl Agent {
    async fn step(&self, why: &str, tool: &str, arguments: Value) -> anyhow::Result<Value> {
        show!("● {why}\n  {tool} {}", shortened(&shown_arguments(&arguments)));
        let begun = Instant::now();
        // A bar that fills is told once, and what comes after it.
        let mut last = String::new();
        let mut on_progress = |news: &str| {
            let step = news.split('[').next().unwrap_or_default();
            if step != last {
                show!("    … {news}");
                step.clone_into(&mut last);
            }
        };
        let result = self.client.call(tool, arguments, &mut on_progress).await?;
        show!("    {} ms", begun.elapsed().as_millis());
        print_content(&result);
        show!("    structuredContent {}\n", shortened(&without_bulk(&result["structuredContent"]).to_string()));
        if result["isError"] == true {
            bail!("{tool} failed");
        }
        Ok(result)
    }
}

fn shown_arguments(arguments: &Value) -> String {
    let fields = arguments.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("  ")
}

fn print_content(result: &Value) {
    for block in result["content"].as_array().into_iter().flatten() {
        if let Some(text) = block["text"].as_str() {
            for line in shortened(text).lines() {
                show!("    │ {line}");
            }
        } else {
            let size = block["data"].as_str().map_or(0, str::len) * 3 / 4;
            show!("    │ [{}, {size} bytes]", block["mimeType"].as_str().unwrap_or("data"));
        }
    }
}

/// The structured half with long data left out, for reading.
fn without_bulk(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "result" && *name != "notes")
            .map(|(name, value)| (name.clone(), if name == "data" { "…".into() } else { without_bulk(value) }))
            .collect(),
        Value::Array(items) => items.iter().map(without_bulk).collect(),
        value => value.clone(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn image(result: &Value) -> Option<Vec<u8>> {
    let blocks = result["content"].as_array()?;
    let data = blocks.iter().find_map(|block| block["data"].as_str())?;
    BASE64_STANDARD.decode(data).ok()
}

/// The first `waves-N.ipynb` that isn't there, so that a second demo keeps the first one's notebook.
fn unused_name(folder: &Path) -> String {
    let names = (1..).map(|number| format!("waves-{number}.ipynb"));
    names.into_iter().find(|name| !folder.join(name).exists()).unwrap_or_default()
}
