//! What a run is answered with.

use serde_json::{Map, Value, json};

use super::Caller;
use super::execution::Ran;
use super::failure::{gone, jupyter_failure};
use super::notebooks::Target;
use crate::answer::{Answer, Code, Failure, render};
use crate::jupyter::{Cause, Ended, JupyterError, RunStatus};
use crate::nbformat::CellRef;

/// The answer of a cell's run; `saved` says whether its outputs are in the file.
pub(super) async fn of_cell(
    caller: &Caller,
    target: &Target,
    cell: &CellRef,
    (ran, saved): (Ran, Result<(), Failure>),
) -> Result<Answer, Failure> {
    let id = cell.id.as_deref().unwrap_or_default();
    // Others may have moved the cell, or deleted it, while it ran. Where it can't be asked, it is where it was.
    let before = cell.index.and_then(|index| usize::try_from(index).ok());
    let index = if ran.ended.server_is_silent() {
        before
    } else {
        target.document.read().await.map_or(before, |notebook| notebook.find(cell).ok())
    };
    let cell = json!({"id": id, "index": index, "type": "code"});
    let place = format!(
        "cell {} (id {id}) of notebook '{}'",
        index.map_or("?".to_owned(), |i| i.to_string()),
        target.open.name
    );
    let note = summary(&ran.ended, &place, target.open.sandbox.as_str());
    let mut extra = Map::new();
    extra.insert("cell".to_owned(), cell);
    extra.insert("notebook".to_owned(), target.tag());
    let answer = answer(&ran, extra, note).map_err(|failure| failure.cell_id(id));
    let Err(failure) = saved else { return answer.map(|answer| answer.cell_id(id)) };
    match answer {
        Ok(answer) => Err(unsaved(answer, &failure).cell_id(id)),
        failed => {
            caller.note(format!("The outputs are not in the notebook: {}", failure.message));
            failed
        }
    }
}

/// The answer of a run that no notebook keeps.
pub(super) fn of_code(kernel: &str, ran: &Ran) -> Result<Answer, Failure> {
    let sandbox = ran.sandbox.name().to_owned();
    let mut extra = Map::new();
    extra.insert("sandbox".to_owned(), Value::from(sandbox.clone()));
    extra.insert("kernel_id".to_owned(), Value::from(kernel));
    let note = summary(&ran.ended, "code", &sandbox);
    answer(ran, extra, note)
}

fn answer(ran: &Ran, mut extra: Map<String, Value>, note: String) -> Result<Answer, Failure> {
    let ended = &ran.ended;
    let status = if stopped_with_its_sandbox(ran) { RunStatus::Died } else { ended.status };
    extra.insert("status".to_owned(), status.as_str().into());
    extra.insert("execution_count".to_owned(), ended.execution_count.into());
    extra.insert("seconds".to_owned(), json!((ended.seconds * 1000.0).round() / 1000.0));
    if let Some((ename, evalue)) = &ended.exception {
        extra.insert("exception".to_owned(), json!({"ename": ename, "evalue": evalue}));
    }
    let parts = render(&ran.outputs);
    if matches!(status, RunStatus::Ok | RunStatus::Error) {
        let mut answer = Answer::outputs(parts).note(note);
        if ended.asked_exit {
            answer = answer
                .note("The code asked its kernel to end (exit or quit): it is restarted, and all variables are lost.");
        } else if ended.state_lost {
            answer =
                answer.note("The kernel was restarted since the last run here: what that left in variables is lost.");
        }
        answer.extra = extra;
        return Ok(answer);
    }
    let mut failure = failure(ran);
    failure.parts = parts;
    failure.extra.extend(extra);
    Err(failure)
}

fn summary(ended: &Ended, place: &str, sandbox: &str) -> String {
    let count = ended.execution_count.map_or(String::new(), |count| format!("[{count}] "));
    format!("{count}{place} in sandbox '{sandbox}': {} in {:.2} s", ended.status.as_str(), ended.seconds)
}

/// Whether the run was interrupted because its sandbox was ended: Jupyter does that on its way out.
fn stopped_with_its_sandbox(ran: &Ran) -> bool {
    let interrupted = ran.ended.exception.as_ref().is_some_and(|(ename, _)| ename == "KeyboardInterrupt");
    interrupted && ran.sandbox.alive().is_err()
}

fn failure(ran: &Ran) -> Failure {
    if stopped_with_its_sandbox(ran)
        && let Err(reason) = ran.sandbox.alive()
    {
        return gone(&ran.sandbox.record(), &reason);
    }
    let (ended, limit) = (&ran.ended, ran.limit.as_secs());
    match (&ended.cause, ended.status) {
        (Some(Cause::StillRunning), RunStatus::Timeout | RunStatus::Interrupted) => Failure::new(
            Code::KernelBusy,
            format!(
                "The code {}, but it ignored the interrupt and is still running. Call restart_notebook to end it (its variables are lost), or wait for it.",
                if ended.status == RunStatus::Timeout {
                    format!("ran longer than {limit} s")
                } else {
                    "was cancelled".to_owned()
                },
            ),
        ),
        (Some(Cause::StillRunning), _) => Failure::new(
            Code::KernelBusy,
            "The kernel is still busy with earlier code, so this was not run. Wait and call again, or call restart_notebook (its variables are lost).",
        ),
        (Some(Cause::Cancelled), _) => Failure::new(
            Code::ExecutionCancelled,
            "The run was cancelled and interrupted; the kernel keeps its variables.",
        ),
        (Some(Cause::CancelledInQueue), _) => {
            Failure::new(Code::ExecutionCancelled, "The call was cancelled before the code started; nothing was run.")
        }
        (Some(Cause::RestartedByCaller), _) => Failure::new(
            Code::ExecutionCancelled,
            "The kernel was restarted while this ran: its variables are lost. Run the code again if it is still wanted.",
        ),
        (Some(Cause::KernelRestarted | Cause::KernelDead), _) if ran.out_of_memory => Failure::new(
            Code::KernelDied,
            "The kernel was killed since the sandbox ran out of memory: all variables are lost. Work on less data at a time, or launch a sandbox with more memory, then run the cells that this one needs again.",
        ),
        (Some(Cause::KernelRestarted), _) => Failure::new(
            Code::KernelDied,
            "The kernel died while this ran (killed, out of memory, or it exited) and was restarted: all variables are lost. Run the cells that this one needs again.",
        ),
        (Some(Cause::KernelDead), _) => Failure::new(
            Code::KernelDied,
            "The kernel died and could not be restarted: all variables are lost. The next run starts a new one.",
        ),
        (Some(Cause::KernelWasRestarted), _) => Failure::new(
            Code::KernelDied,
            "The kernel died before this was seen to begin, maybe long before (killed, out of memory, or it exited), and was restarted: all variables are lost. Run the cells that this one needs, then this one again.",
        ),
        (Some(Cause::NotBegun), _) => Failure::new(
            Code::KernelBusy,
            "The kernel has the code but did not begin it in time, as if it were stuck: it may still run it. Look with list_kernels, or call restart_notebook to end it (its variables are lost).",
        ),
        (Some(Cause::KernelStillborn), _) => Failure::new(Code::KernelDied, stillborn(&ran.last_words)),
        (Some(Cause::KernelDeleted), _) => Failure::new(
            Code::KernelDied,
            "The kernel was shut down by someone else: all variables are lost. Call again and a new kernel starts; run the cells that this one needs first.",
        ),
        (Some(Cause::Unauthorized), _) => unauthorized(ran),
        (Some(Cause::ServerUnreachable(why)), _) => unreachable(ran, why, "Jupyter can't be reached"),
        (Some(Cause::ConnectionLost(why)), _) => unreachable(ran, why, "the connection to the kernel was lost"),
        (None, RunStatus::Timeout) => Failure::new(
            Code::ExecutionTimeout,
            format!(
                "The code ran longer than {limit} s and was interrupted; what it had printed is kept and the kernel keeps its variables. Pass a larger timeout to let it finish."
            ),
        ),
        (None, _) => Failure::new(
            Code::ExecutionCancelled,
            "The run was interrupted from outside; the kernel keeps its variables. Run it again if it is still wanted.",
        ),
    }
}

fn stillborn(last_words: &str) -> String {
    // Jupyter's own lines tell of it that the kernel is gone.
    let words: Vec<_> = last_words.lines().filter(|line| !line.contains(" ServerApp] ")).collect();
    let said = if words.is_empty() { String::new() } else { format!(" It last said: {}", words.join("\n")) };
    format!(
        "The kernel ends each time before it answers, so nothing was run: what its kernelspec starts can't run here. Install what it lacks, or open the notebook with another kernel (list_kernels).{said}"
    )
}

fn unreachable(ran: &Ran, why: &str, what: &str) -> Failure {
    if let Err(reason) = ran.sandbox.alive() {
        return gone(&ran.sandbox.record(), &reason);
    }
    let message = format!(
        "While the code ran, {what} ({why}); whether it finished is unknown. Look at the sandbox with list_kernels before you run it again."
    );
    Failure::new(Code::JupyterUnreachable, message)
}

fn unauthorized(ran: &Ran) -> Failure {
    let host = ran.sandbox.server().base_url().host_str().unwrap_or_default().to_owned();
    jupyter_failure(&ran.sandbox, &JupyterError::Unauthorized { host })
}

/// The code ran well but its outputs could not be saved: that is said, and nothing of them is lost.
fn unsaved(answer: Answer, failure: &Failure) -> Failure {
    let message = format!(
        "The code ran, and this is what came out, but it could not be saved in the notebook: {}",
        failure.message
    );
    let parts = match answer.body {
        crate::answer::Body::Outputs(parts) => parts,
        _ => Vec::new(),
    };
    let mut failed = Failure::new(failure.code, message);
    failed.parts = parts;
    *failed.extra = answer.extra;
    failed
}
