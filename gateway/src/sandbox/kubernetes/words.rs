//! Why a pod doesn't start, or is no longer there, in words.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use super::objects::CONTAINER;

/// What a pod is like.
#[derive(Debug, PartialEq)]
pub(super) enum State {
    /// Its Jupyter listens.
    Ready,
    /// It starts; what is missing.
    Starting(String),
    /// It can't start, and no waiting helps.
    Stuck(String),
    /// It ended.
    Ended(String),
}

/// The state of a pod.
pub(super) fn state(pod: &Pod) -> State {
    let Some(status) = &pod.status else { return State::Starting("it was not seen by the scheduler yet".to_owned()) };
    let container = container(pod);
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        let of_pod = status.reason.as_deref().map(|reason| of_pod(reason, status.message.as_deref()));
        let of_container = container.and_then(|container| ended(container.state.as_ref()?));
        return State::Ended(of_pod.or(of_container).unwrap_or_else(|| "its pod ended".to_owned()));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return State::Ended("its pod is being deleted".to_owned());
    }
    let condition = |kind: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == kind);
    if let Some(unscheduled) = condition("PodScheduled").filter(|condition| condition.status == "False") {
        let message = unscheduled.message.as_deref().unwrap_or("no reason was given");
        return State::Starting(format!("it can't be scheduled: {message}"));
    }
    let waiting = container.and_then(|container| container.state.as_ref()?.waiting.as_ref());
    if let Some(waiting) = waiting {
        let (reason, message) =
            (waiting.reason.as_deref().unwrap_or_default(), waiting.message.as_deref().unwrap_or_default());
        return match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                State::Stuck(format!("its image can't be had ({reason}): {message}"))
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                State::Stuck(format!("its container can't be made ({reason}): {message}"))
            }
            "" | "ContainerCreating" | "PodInitializing" => State::Starting("its container is being made".to_owned()),
            reason => State::Starting(format!("{reason} {message}").trim().to_owned()),
        };
    }
    match condition("Ready") {
        Some(ready) if ready.status == "True" => State::Ready,
        _ => State::Starting("its Jupyter doesn't listen yet".to_owned()),
    }
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|container| container.name == CONTAINER)
}

/// Whether its container was started and has not ended.
pub(super) fn is_running(pod: &Pod) -> bool {
    container(pod).is_some_and(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// Whether the last end of something in it was for want of memory.
pub(super) fn out_of_memory(pod: &Pod) -> bool {
    let of = |state: &Option<ContainerState>| {
        state
            .as_ref()
            .and_then(|state| state.terminated.as_ref()?.reason.clone())
            .is_some_and(|reason| reason == "OOMKilled")
    };
    container(pod).is_some_and(|container| of(&container.state) || of(&container.last_state))
}

fn of_pod(reason: &str, message: Option<&str>) -> String {
    match reason {
        "DeadlineExceeded" => "it expired (ttl_seconds)".to_owned(),
        "Evicted" => format!("its pod was evicted from its node: {}", message.unwrap_or("no reason was given")),
        "NodeLost" | "NodeShutdown" | "Terminated" => format!("its node went away ({reason})"),
        reason => {
            format!("its pod ended ({reason}){}", message.map_or(String::new(), |message| format!(": {message}")))
        }
    }
}

fn ended(state: &ContainerState) -> Option<String> {
    let terminated = state.terminated.as_ref()?;
    let code = terminated.exit_code;
    Some(match terminated.reason.as_deref() {
        Some("OOMKilled") => "its container ran out of memory and was killed".to_owned(),
        _ => match code {
            137 => "its container was killed (exit code 137)".to_owned(),
            0 | 143 => format!("its container was stopped (exit code {code})"),
            code => format!("its container ended with exit code {code}"),
        },
    })
}
