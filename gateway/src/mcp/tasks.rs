//! Calls that outlive their client (the MCP Tasks extension, SEP-2663).
//!
//! A client that takes tasks gets a handle when its call is not over after a moment, and looks with `tasks/get` how it is getting on,
//! over any connection of its principal. Another's task is answered as one that does not exist. Tasks are gone with the gateway;
//! what ran is in its notebook.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CreateTaskResult, DetailedTask};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::calling::Client;
use super::result;
use crate::answer::Sealed;
use crate::sandbox::Owner;

/// How long a call may take before its client gets a handle.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a result is kept; a task may run for so long beyond the longest execution.
const KEPT: Duration = Duration::from_secs(3600);
/// As many tasks of one principal are kept. The calls of one that has more are answered at their end.
const MOST: usize = 32;

/// The tasks of everyone.
#[derive(Default)]
pub(super) struct Tasks {
    manager: TaskManager,
    owners: Mutex<HashMap<String, Owner>>,
}

/// A call that was begun.
pub(super) struct Begun {
    pub(super) owner: Owner,
    pub(super) answering: JoinHandle<Sealed>,
    /// What it says on the way.
    pub(super) news: UnboundedReceiver<String>,
    /// Takes it back.
    pub(super) cancel: CancellationToken,
    /// How long its code may run at most.
    pub(super) ceiling: Duration,
}

impl Tasks {
    /// The answer of a call that is over soon; else the handle of a task that goes on with it. `taken_back` is cancelled when its
    /// client takes the call back, or goes away, before it has the handle.
    pub(super) async fn answer(
        &self,
        mut begun: Begun,
        mut client: Client,
        taken_back: CancellationToken,
    ) -> Result<CallToolResponse, ErrorData> {
        let patience = if self.has_room(&begun.owner) { PATIENCE } else { Duration::MAX };
        let over = tokio::time::sleep(patience);
        tokio::pin!(over);
        loop {
            tokio::select! {
                sealed = &mut begun.answering => return Ok(result(answered(sealed)?).into()),
                Some(news) = begun.news.recv() => client.tell(news).await,
                () = taken_back.cancelled(), if !begun.cancel.is_cancelled() => begun.cancel.cancel(),
                () = &mut over, if !begun.cancel.is_cancelled() => return Ok(self.go_on(begun)),
            }
        }
    }

    fn go_on(&self, begun: Begun) -> CallToolResponse {
        let Begun { owner, mut answering, mut news, cancel, ceiling } = begun;
        let kept = u64::try_from((ceiling + KEPT).as_millis()).unwrap_or(u64::MAX);
        let task = self.manager.spawn(TaskOptions::new().with_ttl_ms(kept), |task| {
            Box::pin(async move {
                loop {
                    tokio::select! {
                        sealed = &mut answering => {
                            let sealed = answered(sealed)?;
                            let taken_back = cancel.is_cancelled() && sealed.is_error;
                            return if taken_back { Err(TaskExit::Cancelled) } else { Ok(result(sealed)) };
                        }
                        Some(news) = news.recv() => task.set_status_message(news),
                        () = task.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                    }
                }
            })
        });
        self.owners().insert(task.task_id.clone(), owner);
        CallToolResponse::Task(CreateTaskResult::new(task))
    }

    /// How a task of that principal is getting on, with its result once there is one.
    pub(super) fn get(&self, owner: &Owner, id: &str) -> Result<DetailedTask, ErrorData> {
        self.of(owner, id)?.get_task(id)
    }

    /// Takes a task's call back.
    pub(super) fn cancel(&self, owner: &Owner, id: &str) -> Result<(), ErrorData> {
        self.of(owner, id)?.cancel_task(id)
    }

    /// Where a principal's task of that id is: nowhere when it is another's.
    fn of(&self, owner: &Owner, id: &str) -> Result<&TaskManager, ErrorData> {
        if self.owners().get(id) == Some(owner) { Ok(&self.manager) } else { Err(unknown(id)) }
    }

    /// Whether a principal may have one more, after those are forgotten whose time is over.
    fn has_room(&self, owner: &Owner) -> bool {
        let mut owners = self.owners();
        owners.retain(|id, _| self.manager.get_task(id).is_ok());
        owners.values().filter(|of| *of == owner).count() < MOST
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answered(sealed: Result<Sealed, tokio::task::JoinError>) -> Result<Sealed, ErrorData> {
    sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The words are those of rmcp, for ids that never were.
fn unknown(id: &str) -> ErrorData {
    ErrorData::invalid_params(format!("unknown task: {id}"), None)
}
