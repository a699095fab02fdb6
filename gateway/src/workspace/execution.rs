//! Running code: one stream of events, read by the progress, the saved outputs and the answer.

mod saving;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Caller;
use super::notebooks::Target;
use super::report;
use crate::answer::{Answer, Code, Failure};
use crate::jupyter::{Cause, Ended, Event, Kernel, Run, RunStatus};
use crate::nbformat::{CellRef, CellType, DisplayUpdate, Outputs};
use crate::points;
use crate::sandbox::Sandbox;
use saving::Saving;

/// How long a server that was given up gets to take the outputs.
const FAREWELL: Duration = Duration::from_millis(500);

/// How a call wants its code run.
#[derive(Clone, Copy)]
pub struct Options {
    /// Time limit in seconds; 0 is the operator's default.
    pub timeout: u64,
    /// Whether progress is reported.
    pub stream: bool,
    /// Seconds between progress reports.
    pub progress_interval: u64,
}

/// Where `execute_code` is to run.
#[derive(Default)]
pub struct Where {
    /// A kernel's id.
    pub kernel: Option<String>,
    /// An open notebook's name.
    pub notebook: Option<String>,
    /// A sandbox's name.
    pub sandbox: Option<String>,
}

/// What a run left.
pub(super) struct Ran {
    pub(super) outputs: Vec<Value>,
    pub(super) ended: Ended,
    /// The time limit that held.
    pub(super) limit: Duration,
    /// The end of what the sandbox wrote, where it tells why there is no kernel.
    pub(super) last_words: String,
    /// Its kernel died, for want of memory.
    pub(super) out_of_memory: bool,
    pub(super) sandbox: Arc<Sandbox>,
}

/// Code to run, and the cell that its outputs go to, if any.
struct Job<'a> {
    code: String,
    options: Options,
    cell: Option<Saving<'a>>,
}

impl Caller {
    /// Runs a code cell of a notebook and saves its outputs in it.
    pub async fn run_cell(&self, target: &Target, cell: &CellRef, options: Options) -> Result<Answer, Failure> {
        let notebook = target.document.read().await?;
        let index = notebook.find(cell)?;
        let Some(cell) = notebook.cell(index) else {
            return Err(Failure::new(Code::CellNotFound, "The cell is gone; read the notebook again."));
        };
        let (id, source) = (cell.id().to_owned(), cell.source());
        if cell.cell_type() != CellType::Code {
            let message = format!("Cell {index} (id {id}) is a {} cell: only code cells can be run.", cell.cell_type());
            return Err(Failure::new(Code::CellWrongType, message));
        }
        let kernel = self.kernel(target).await?;
        // By id, since others may insert above it; the index tells cells of one id apart.
        let cell = CellRef { id: Some(id.clone()), index: i64::try_from(index).ok() };
        let saving = Saving::new(target, cell.clone());
        target.document.set_running(&id, true);
        let job = Job { code: source, options, cell: Some(saving) };
        points::reached("execute.inserted").await;
        let (ran, saved) = self.run(&target.sandbox, &kernel, job).await;
        if ran.ended.goes_on() {
            let document = Arc::clone(&target.document);
            tokio::spawn(async move {
                kernel.settled().await;
                document.set_running(&id, false);
            });
        } else {
            target.document.set_running(&id, false);
        }
        report::of_cell(self, target, &cell, (ran, saved)).await
    }

    /// Runs code that no notebook keeps.
    pub async fn run_code(&self, code: String, place: &Where, options: Options) -> Result<Answer, Failure> {
        let (sandbox, kernel) = self.place(place).await?;
        let job = Job { code, options, cell: None };
        let (ran, _) = self.run(&sandbox, &kernel, job).await;
        report::of_code(kernel.id(), &ran)
    }

    /// Where code goes (contract, "Where a call goes").
    async fn place(&self, place: &Where) -> Result<(Arc<Sandbox>, Arc<Kernel>), Failure> {
        if let Some(id) = &place.kernel {
            let (sandbox, model) = self.kernel_by_id(id, place.sandbox.as_deref()).await?;
            if let Some(name) = &place.notebook {
                let target = self.notebook(Some(name))?;
                if target.open.kernel_id().as_deref() != Some(model.id.as_str()) {
                    return Err(disagree(&format!("kernel_id '{id}' is not the kernel of notebook '{name}'")));
                }
            }
            let kernel = sandbox.server().kernel(&model.id);
            return Ok((sandbox, kernel));
        }
        if let Some(name) = &place.notebook {
            let target = self.notebook(Some(name))?;
            if let Some(sandbox) = &place.sandbox
                && self.named_sandbox(sandbox)?.id() != target.sandbox.id()
            {
                return Err(disagree(&format!(
                    "notebook '{name}' is in sandbox '{}', not in '{sandbox}'",
                    target.open.sandbox
                )));
            }
            let kernel = self.kernel(&target).await?;
            return Ok((target.sandbox, kernel));
        }
        if let Some(name) = &place.sandbox {
            let sandbox = self.named_sandbox(name)?;
            let kernel = self.scratch_kernel(&sandbox).await?;
            return Ok((sandbox, kernel));
        }
        let sandbox = self.sandbox(None).await?;
        if let Some(current) = self.current_notebook()
            && let Ok(target) = self.notebook(Some(&current))
            && target.sandbox.id() == sandbox.id()
        {
            let kernel = self.kernel(&target).await?;
            return Ok((target.sandbox, kernel));
        }
        let kernel = self.scratch_kernel(&sandbox).await?;
        Ok((sandbox, kernel))
    }

    /// The time limit that holds; a note when the operator's ceiling is lower than what was asked for.
    fn limit(&self, seconds: u64) -> Duration {
        let policy = self.policy();
        let wanted = if seconds == 0 { policy.execution_timeout } else { Duration::from_secs(seconds) };
        if wanted > policy.execution_ceiling && seconds > 0 {
            let ceiling = policy.execution_ceiling.as_secs();
            self.note(format!("The timeout of {seconds} s is above the ceiling here: {ceiling} s is used."));
        }
        wanted.min(policy.execution_ceiling)
    }

    async fn run(&self, sandbox: &Arc<Sandbox>, kernel: &Arc<Kernel>, job: Job<'_>) -> (Ran, Result<(), Failure>) {
        let _at_work = sandbox.at_work();
        let limit = self.limit(job.options.timeout);
        let events = kernel.execute(Run { code: job.code, timeout: limit, cancel: self.call.cancel.clone() });
        let mut follower = Follower {
            caller: self,
            options: job.options,
            begun: Instant::now(),
            outputs: Outputs::default(),
            cell: job.cell,
            updates: HashMap::new(),
            sandbox,
            kernel: kernel.id(),
        };
        let ended = follower.follow(events).await;
        points::reached("execute.ended").await;
        let saved = if ended.server_is_silent() {
            let finished = tokio::time::timeout(FAREWELL, follower.finish(&ended)).await;
            finished.unwrap_or_else(|_| Err(Failure::new(Code::JupyterUnreachable, "Jupyter doesn't answer.")))
        } else {
            follower.finish(&ended).await
        };
        points::reached("execute.saved").await;
        if matches!(ended.cause, Some(Cause::KernelDeleted | Cause::KernelDead | Cause::KernelStillborn)) {
            self.forget_kernel(sandbox, kernel.id());
        }
        if sandbox.is_siblings() && kernel.queue_length() == 0 {
            // Its own gateway would take the connection for a person's, and the sandbox would never be idle.
            sandbox.server().forget_kernel(kernel.id());
        }
        let last_words = match ended.cause {
            Some(Cause::KernelStillborn) => sandbox.last_words().await,
            _ => String::new(),
        };
        let out_of_memory = matches!(ended.cause, Some(Cause::KernelRestarted | Cause::KernelDead))
            && sandbox.ran_out_of_memory().await;
        let outputs = follower.outputs.to_json();
        (Ran { outputs, ended, limit, last_words, out_of_memory, sandbox: Arc::clone(sandbox) }, saved)
    }
}

/// Reads the events of one run for the three who want them.
struct Follower<'a> {
    caller: &'a Caller,
    options: Options,
    begun: Instant,
    outputs: Outputs,
    cell: Option<Saving<'a>>,
    /// The last of each display of another run.
    updates: HashMap<String, DisplayUpdate>,
    sandbox: &'a Sandbox,
    kernel: &'a str,
}

impl Follower<'_> {
    async fn follow(&mut self, mut events: UnboundedReceiver<Event>) -> Ended {
        let every = Duration::from_secs(self.options.progress_interval.max(1));
        let mut report = tokio::time::interval_at((self.begun + every).into(), every);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(Event::Ended(ended)) => return ended,
                    Some(event) => self.take(event),
                    None => return lost(self.begun),
                },
                _ = report.tick() => self.report(),
                () = saving::step(&mut self.cell, &self.outputs) => {}
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Queued { ahead } if ahead > 0 => {
                self.say(format!("waiting for {ahead} earlier run{}", if ahead == 1 { "" } else { "s" }));
            }
            Event::Output { message_type, content } => {
                if let Some(update) = self.outputs.apply(&message_type, &content) {
                    self.updates.insert(update.display_id.clone(), update);
                }
                if let Some(cell) = &mut self.cell {
                    cell.is_behind();
                }
            }
            _ => {}
        }
    }

    fn report(&self) {
        let elapsed = self.begun.elapsed().as_secs();
        let newest = self.outputs.last_text().map(|line| crate::answer::plain(&line)).unwrap_or_default();
        let newest: String = newest.trim().chars().take(200).collect();
        self.say(if newest.is_empty() { format!("{elapsed} s") } else { format!("{elapsed} s: {newest}") });
    }

    fn say(&self, text: String) {
        if self.options.stream {
            self.caller.call.progress.say(text);
        }
    }

    async fn finish(&mut self, ended: &Ended) -> Result<(), Failure> {
        // A run that the kernel never began leaves the cell as it was.
        let began =
            !(matches!(ended.cause, Some(Cause::CancelledInQueue)) || never_began(ended) && self.outputs.is_empty());
        if let Some(cell) = &mut self.cell {
            cell.end(self.kernel, &self.outputs, ended, began).await?;
        }
        // What other cells of this kernel showed, in whatever notebook.
        for document in self.caller.documents(self.sandbox) {
            for (display_id, update) in &self.updates {
                document.update_display((self.kernel, display_id), update).await?;
            }
        }
        Ok(())
    }
}

fn never_began(ended: &Ended) -> bool {
    ended.execution_count.is_none() && ended.status == RunStatus::Aborted
}

/// The end of a run whose kernel's task went away without a word.
fn lost(begun: Instant) -> Ended {
    Ended {
        status: RunStatus::Died,
        execution_count: None,
        seconds: begun.elapsed().as_secs_f64(),
        cause: Some(Cause::ConnectionLost("the kernel's connection was closed".to_owned())),
        exception: None,
        asked_exit: false,
        state_lost: false,
    }
}

fn disagree(what: &str) -> Failure {
    Failure::new(Code::ArgumentsInvalid, format!("These arguments disagree: {what}. Pass only one of them."))
}
