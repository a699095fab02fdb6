//! kill -9 of the gateway, of Jupyter and of a kernel at every step of launch, use, execute and terminate.
//!
//! A debug build stops at named points; the test kills something there, lets it go on or starts the next gateway, and looks: nothing is left
//! over, nothing acknowledged is lost, and `list_sandboxes` tells the truth.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Gateway, Process, Running, Start, eventually, marked, validate_notebook};

const LAUNCH: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Gateway,
    Jupyter,
    Kernel,
}

/// A gateway that can be held at points.
struct Stage {
    data: TempDir,
    points: TempDir,
    gateway: Gateway,
    client: Client,
}

impl Stage {
    async fn set() -> Self {
        let (data, points) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let gateway = start(data.path(), points.path());
        let client = connect(&gateway).await;
        Self { data, points, gateway, client }
    }

    /// The same with a sandbox, a file in it, an open notebook with a cell that ran, and a variable in its kernel.
    async fn with_sandbox() -> Self {
        let stage = Self::set().await;
        launch(&stage.client).await;
        let notebook = json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"});
        stage.client.call("use_notebook", notebook).await.ok();
        let cell =
            json!({"cell_index": 0, "cell_source": "open('kept.txt', 'w').write('kept')\nx = 41\nprint('first')"});
        stage.client.call("insert_execute_code_cell", cell).await.ok();
        stage
    }

    /// Starts a call and waits until the gateway is held at `point`.
    async fn held(&self, point: &str, tool: &str, arguments: Value) -> Running {
        let armed = self.points.path().join(point);
        std::fs::write(&armed, "").expect("the point is armed");
        let call = self.client.start(tool, arguments);
        eventually(&format!("{point} is reached"), LAUNCH, || !armed.exists()).await;
        call
    }

    /// Kills the victim where the gateway stands. Goes on with the same gateway, or with the next one.
    async fn kill(&mut self, victim: Victim, point: &str, call: Running) {
        let program = match victim {
            Victim::Gateway => {
                self.gateway.kill();
                call.drop_connection();
                self.gateway = start(self.data.path(), self.points.path());
                self.client = connect(&self.gateway).await;
                return;
            }
            Victim::Jupyter => "start_jupyter.py",
            Victim::Kernel => "start_kernel.py",
        };
        let victims = marked(self.data.path()).into_iter().filter(|process| process.command.contains(program));
        victims.for_each(|process| process.kill());
        std::fs::write(self.points.path().join(format!("{point}.go")), "").expect("it goes on");
        // What it answers is told by what follows; that it answers at all is the point.
        call.wait().await;
    }

    async fn records(&self) -> Vec<Value> {
        self.client.call("list_sandboxes", json!({})).await.ok().get("result").as_array().expect("a list").clone()
    }

    async fn status(&self) -> Value {
        let records = self.records().await;
        records.iter().find(|record| record["name"] == "box").map_or(Value::Null, |record| record["status"].clone())
    }

    fn processes(&self) -> Vec<Process> {
        marked(self.data.path())
    }

    /// What the list says of the sandbox and what runs agree, sooner or later; the status.
    async fn truth(&self, case: &str) -> Value {
        for _ in 0..400 {
            let status = self.status().await;
            let jupyters =
                self.processes().iter().filter(|process| process.command.contains("start_jupyter.py")).count();
            let agree = match status.as_str() {
                Some("running") => jupyters == 1,
                Some("pending" | "starting" | "terminating") => false,
                _ => self.processes().is_empty(),
            };
            if agree {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{case}: {:?} and {:?}", self.records().await, self.processes());
    }

    /// The sandbox can be had, its files are there, and cells run.
    async fn works(&self, case: &str) {
        launch(&self.client).await;
        let notebook = json!({"notebook_name": "again", "notebook_path": "again.ipynb", "mode": "create"});
        self.client.call("use_notebook", notebook).await.ok();
        let cell = json!({"cell_index": -1, "cell_source": "40 + 2"});
        let ran = self.client.call("insert_execute_code_cell", cell).await.ok();
        assert!(ran.outputs().contains("42"), "{case}: {}", ran.outputs());
        self.client.call("terminate_sandbox", json!({"sandbox_name": "box"})).await.ok();
        assert!(self.processes().is_empty(), "{case}: {:?}", self.processes());
    }

    /// What was acknowledged before is there.
    fn has_kept(&self, case: &str) {
        let files = self.data.path().join("workspaces/local/box");
        assert_eq!(std::fs::read_to_string(files.join("kept.txt")).ok().as_deref(), Some("kept"), "{case}");
        validate_notebook(&files.join("n.ipynb"));
        let notebook = std::fs::read_to_string(files.join("n.ipynb")).expect("the notebook is there");
        assert!(notebook.contains("first"), "{case}: {notebook}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            marked(self.data.path()).iter().for_each(Process::kill);
        }
    }
}

fn start(data: &Path, points: &Path) -> Gateway {
    Start::default().data(data).env("CELLGATE_POINTS", &points.to_string_lossy()).serve()
}

/// A client whose workspace is the same before and after.
async fn connect(gateway: &Gateway) -> Client {
    Client::connect(&format!("{}?workspace=matrix", gateway.url())).await
}

async fn launch(client: &Client) {
    client.call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
}

#[tokio::test]
async fn at_every_step_of_a_launch() {
    for (point, victim) in [
        ("launch.intended", Victim::Gateway),
        ("launch.starting", Victim::Gateway),
        ("launch.started", Victim::Gateway),
        ("launch.started", Victim::Jupyter),
        ("launch.ready", Victim::Gateway),
        ("launch.ready", Victim::Jupyter),
        ("launch.recorded", Victim::Gateway),
        ("launch.recorded", Victim::Jupyter),
        ("call.saved", Victim::Gateway),
        ("call.saved", Victim::Jupyter),
    ] {
        let case = format!("{victim:?} at {point}");
        let mut stage = Stage::set().await;
        let call = stage.held(point, "launch_sandbox", json!({"sandbox_name": "box"})).await;
        stage.kill(victim, point, call).await;
        let status = stage.truth(&case).await;
        // From where it is written down as running, the next gateway goes on with it.
        let goes_on = victim == Victim::Gateway && matches!(point, "launch.recorded" | "call.saved");
        assert_eq!(status == "running", goes_on, "{case}: {status}");
        stage.works(&case).await;
    }
}

#[tokio::test]
async fn at_every_step_of_opening_a_notebook() {
    for point in ["use.opened", "call.saved"] {
        for victim in [Victim::Gateway, Victim::Jupyter, Victim::Kernel] {
            let case = format!("{victim:?} at {point}");
            let mut stage = Stage::with_sandbox().await;
            let arguments = json!({"notebook_name": "second", "notebook_path": "second.ipynb", "mode": "create"});
            let call = stage.held(point, "use_notebook", arguments).await;
            stage.kill(victim, point, call).await;
            let status = stage.truth(&case).await;
            assert_eq!(status == "running", victim != Victim::Jupyter, "{case}: {status}");
            stage.has_kept(&case);
            validate_notebook(&stage.data.path().join("workspaces/local/box/second.ipynb"));
            if victim == Victim::Gateway {
                // The notebook that was open is open, and so is the second one once that was saved.
                let open = stage.client.call("list_notebooks", json!({})).await.ok().structured().to_string();
                assert!(open.contains("n.ipynb"), "{case}: {open}");
                assert_eq!(open.contains("second.ipynb"), point == "call.saved", "{case}: {open}");
                let arguments = json!({"notebook_name": "n", "code": "print(x + 1)"});
                assert_eq!(stage.client.call("execute_code", arguments).await.ok().outputs().trim(), "42", "{case}");
            }
            stage.works(&case).await;
        }
    }
}

#[tokio::test]
async fn at_every_step_of_a_run() {
    for point in ["execute.inserted", "execute.ended", "execute.saved", "call.saved"] {
        for victim in [Victim::Gateway, Victim::Jupyter, Victim::Kernel] {
            let case = format!("{victim:?} at {point}");
            let mut stage = Stage::with_sandbox().await;
            let arguments = json!({"cell_index": -1, "cell_source": "print('sec' + 'ond')"});
            let call = stage.held(point, "insert_execute_code_cell", arguments).await;
            stage.kill(victim, point, call).await;
            let status = stage.truth(&case).await;
            assert_eq!(status == "running", victim != Victim::Jupyter, "{case}: {status}");
            stage.has_kept(&case);
            let text = std::fs::read_to_string(stage.data.path().join("workspaces/local/box/n.ipynb")).unwrap();
            assert!(text.contains("'sec' + 'ond'"), "{case}: the cell is lost");
            if matches!(point, "execute.saved" | "call.saved") {
                assert!(text.contains("\"second\\n\""), "{case}: saved output is lost: {text}");
            }
            if victim == Victim::Gateway {
                let arguments = json!({"notebook_name": "n", "code": "print(x + 1)"});
                assert_eq!(stage.client.call("execute_code", arguments).await.ok().outputs().trim(), "42", "{case}");
            }
            stage.works(&case).await;
        }
    }
}

#[tokio::test]
async fn at_every_step_of_a_termination() {
    for (point, victim) in [
        ("terminate.intended", Victim::Gateway),
        ("terminate.intended", Victim::Jupyter),
        ("terminate.intended", Victim::Kernel),
        ("terminate.ended", Victim::Gateway),
        ("terminate.recorded", Victim::Gateway),
        ("call.saved", Victim::Gateway),
    ] {
        let case = format!("{victim:?} at {point}");
        let mut stage = Stage::with_sandbox().await;
        let call = stage.held(point, "terminate_sandbox", json!({"sandbox_name": "box"})).await;
        stage.kill(victim, point, call).await;
        // Once it was wished it is carried out, by the next gateway if need be.
        assert_eq!(stage.truth(&case).await, "terminated", "{case}");
        let records = stage.records().await;
        assert_eq!(records[0]["status_reason"], "terminated by its owner", "{case}");
        stage.has_kept(&case);
        stage.works(&case).await;
    }
}

#[tokio::test]
async fn on_a_closed_standard_input_too() {
    let mut stdio = crate::harness::Stdio::start().await;
    stdio.call("launch_sandbox", json!({"sandbox_name": "box"})).await.ok();
    let notebook = json!({"notebook_name": "n", "notebook_path": "n.ipynb", "mode": "create"});
    stdio.call("use_notebook", notebook).await.ok();
    stdio.call("insert_execute_code_cell", json!({"cell_index": 0, "cell_source": "print('first')"})).await.ok();
    stdio.close().await;
    eventually("nothing is left", SOON, || marked(stdio.data()).is_empty()).await;
    validate_notebook(&stdio.data().join("workspaces/local/box/n.ipynb"));
}
