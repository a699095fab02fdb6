//! Which sandboxes' containers ended, and why: told by the engine's events, and looked up when they were missed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerState, EventMessage};
use bollard::query_parameters::{EventsOptionsBuilder, InspectContainerOptions};
use futures_util::StreamExt;
use tokio::sync::Notify;

use super::container::last_words;
use super::engine::{self, Engine};
use super::labels;
use crate::sandbox::SandboxId;

/// Before the engine is asked again after it did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// What a sandbox's Jupyter writes before it ends itself begins with this (`dead_mans_switch.py`).
const OWN_REASON: &str = "cellgate: ";
const GONE: &str = "its container was removed";
/// How long after the engine told of it a kernel's death is put down to a want of memory.
const OOM_MEMORY: Duration = Duration::from_secs(15);
/// How much later than Jupyter tells of a kernel's death the engine may tell of that.
const OOM_DELAY: Duration = Duration::from_secs(1);

/// The containers that are looked after.
pub(super) struct Watch {
    engine: Arc<Engine>,
    directory: String,
    containers: Mutex<HashMap<SandboxId, Watched>>,
    /// Wakes those who wait for what the engine tells of a container.
    news: Notify,
    started: AtomicBool,
    silent: AtomicBool,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) container: String,
    /// When it was started; unknown before it was. Another time means that it was restarted, and has no rules any more.
    pub(super) started_at: Option<String>,
    pub(super) ended: Option<String>,
    pub(super) out_of_memory: Option<Instant>,
}

impl Watched {
    fn just_ran_out_of_memory(&self) -> bool {
        self.out_of_memory.is_some_and(|at| at.elapsed() < OOM_MEMORY)
    }
}

impl Watch {
    pub(super) fn new(engine: Arc<Engine>, directory: &str) -> Self {
        Self {
            engine,
            directory: directory.to_owned(),
            containers: Mutex::default(),
            news: Notify::new(),
            started: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        }
    }

    fn containers(&self) -> MutexGuard<'_, HashMap<SandboxId, Watched>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after a container from now on.
    pub(super) fn add(self: &Arc<Self>, id: &SandboxId, container: &str, started_at: Option<String>) {
        let watched = Watched { container: container.to_owned(), started_at, ended: None, out_of_memory: None };
        self.containers().insert(id.clone(), watched);
        if !self.started.swap(true, Ordering::Relaxed) {
            tokio::spawn(follow(Arc::downgrade(self)));
        }
    }

    /// What is known of a sandbox's container.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Watched> {
        self.containers().get(id).cloned()
    }

    /// It no longer has to be looked after.
    pub(super) fn remove(&self, id: &SandboxId) {
        self.containers().remove(id);
    }

    /// Whether the engine stopped answering.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Whether something in a sandbox was just killed for want of memory. The engine may be about to tell of it.
    pub(super) async fn ran_out_of_memory(&self, id: &SandboxId) -> bool {
        let told = async {
            loop {
                let news = self.news.notified();
                if self.get(id).is_some_and(|watched| watched.just_ran_out_of_memory()) {
                    return;
                }
                news.await;
            }
        };
        tokio::time::timeout(OOM_DELAY, told).await.is_ok()
    }

    fn change(&self, id: &SandboxId, change: impl FnOnce(&mut Watched)) {
        if let Some(watched) = self.containers().get_mut(id) {
            change(watched);
            self.news.notify_waiters();
        }
    }

    /// Looks whether a container runs, and notes why not.
    pub(super) async fn look(&self, docker: &Docker, id: &SandboxId) {
        let Some(watched) = self.get(id).filter(|watched| watched.ended.is_none()) else { return };
        if let Ok(Some(reason)) = ended(docker, &watched).await {
            self.change(id, |watched| watched.ended = Some(reason));
        }
    }

    async fn look_at_all(&self, docker: &Docker) {
        let all: Vec<SandboxId> = self.containers().keys().cloned().collect();
        for id in all {
            self.look(docker, &id).await;
        }
    }

    async fn note(&self, docker: &Docker, event: &EventMessage) {
        let attributes = event.actor.as_ref().and_then(|actor| actor.attributes.as_ref());
        let Some(id) = attributes.and_then(|attributes| attributes.get(labels::SANDBOX)) else { return };
        let id = SandboxId::from_record(id.clone());
        let is_its =
            |watched: &Watched| event.actor.as_ref().and_then(|actor| actor.id.as_ref()) == Some(&watched.container);
        if !self.get(&id).is_some_and(|watched| is_its(&watched)) {
            return;
        }
        match event.action.as_deref() {
            Some("oom") => self.change(&id, |watched| watched.out_of_memory = Some(Instant::now())),
            Some("die" | "destroy" | "start") => self.look(docker, &id).await,
            _ => {}
        }
    }
}

/// Follows the engine's events for as long as somebody watches.
async fn follow(watch: Weak<Watch>) {
    loop {
        let Some((engine, directory)) =
            watch.upgrade().map(|watch| (Arc::clone(&watch.engine), watch.directory.clone()))
        else {
            return;
        };
        if let Ok(connected) = engine.connected().await {
            follow_events(&watch, &connected.docker, &directory).await;
        }
        if let Some(watch) = watch.upgrade()
            && !watch.silent.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("the Docker Engine doesn't answer any more");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow_events(watch: &Weak<Watch>, docker: &Docker, directory: &str) {
    // From before the look on, so that nothing falls between the two.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut filters = labels::filter([(labels::DIRECTORY, directory), (labels::SANDBOX, "")]);
    filters.insert("type".to_owned(), vec!["container".to_owned()]);
    let options = EventsOptionsBuilder::default().since(&now.to_string()).filters(&filters).build();
    let mut events = std::pin::pin!(docker.events(Some(options)));
    if docker.ping().await.is_err() {
        return;
    }
    {
        let Some(watch) = watch.upgrade() else { return };
        if watch.silent.swap(false, Ordering::Relaxed) {
            tracing::info!("the Docker Engine answers again");
        }
        watch.look_at_all(docker).await;
    }
    while let Some(Ok(event)) = events.next().await {
        let Some(watch) = watch.upgrade() else { return };
        watch.note(docker, &event).await;
    }
}

/// Why a container is no longer what was started, if so.
pub(super) async fn ended(docker: &Docker, watched: &Watched) -> Result<Option<String>, Error> {
    let found = match docker.inspect_container(&watched.container, None::<InspectContainerOptions>).await {
        Ok(found) => found,
        Err(error) if engine::is_missing(&error) => return Ok(Some(GONE.to_owned())),
        Err(error) => return Err(error),
    };
    let state = found.state.unwrap_or_default();
    if state.running == Some(true) {
        let restarted = watched.started_at.is_some() && state.started_at != watched.started_at;
        return Ok(restarted.then(|| "its container was restarted by somebody".to_owned()));
    }
    // One that was never started is being launched.
    if watched.started_at.is_none() && state.finished_at.as_deref().is_none_or(|at| at.starts_with("0001-")) {
        return Ok(None);
    }
    Ok(Some(reason(&state, watched.just_ran_out_of_memory(), &last_words(docker, &watched.container).await)))
}

/// `out_of_memory`: the engine told of that just before. Its own mark stays, whatever ends the container later.
fn reason(state: &ContainerState, out_of_memory: bool, said: &str) -> String {
    if let Some(own) = said.lines().rev().find_map(|line| line.strip_prefix(OWN_REASON)) {
        return own.to_owned();
    }
    let code = state.exit_code.unwrap_or_default();
    let how = match code {
        137 if out_of_memory => "its container ran out of memory and was killed".to_owned(),
        137 if state.oom_killed == Some(true) => {
            "its container was killed (exit code 137); it had run out of memory before".to_owned()
        }
        137 => "its container was killed (exit code 137)".to_owned(),
        143 | 0 => format!("its container was stopped (exit code {code})"),
        code => format!("its container ended with exit code {code}"),
    };
    let error = state.error.as_deref().filter(|error| !error.is_empty());
    // What it said is of use only when it ended by itself.
    let said = if matches!(code, 0 | 137 | 143) { "" } else { said };
    match (error, said) {
        (Some(error), _) => format!("{how}: {error}"),
        (None, "") => how,
        (None, said) => format!("{how} and last said: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ContainerState;

    use super::reason;

    #[test]
    fn an_end_is_called_by_its_name() {
        let state = |code, oom| ContainerState { exit_code: Some(code), oom_killed: Some(oom), ..Default::default() };
        assert!(reason(&state(137, true), true, "").contains("ran out of memory and"));
        assert!(reason(&state(137, true), false, "").contains("was killed (exit code 137); it had"));
        assert!(reason(&state(137, false), false, "").contains("killed (exit code 137)"));
        assert_eq!(
            reason(&state(0, false), false, "[W] x\ncellgate: it was not used for 5 s"),
            "it was not used for 5 s"
        );
        let failed = reason(&state(3, false), false, "no module named x");
        assert!(failed.contains("exit code 3") && failed.ends_with("no module named x"), "{failed}");
    }
}
