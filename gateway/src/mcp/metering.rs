//! What is counted of each call. Nothing is labelled by sandbox or caller.

use std::time::Duration;

use crate::answer::Sealed;

/// Counts a call and writes its one line in the log.
pub(super) fn called(tool: &'static str, duration: Duration, sealed: &Sealed) {
    let code = sealed.structured["error"]["code"].as_str().unwrap_or("ok").to_owned();
    metrics::counter!("cellgate_calls_total", "tool" => tool).increment(1);
    metrics::histogram!("cellgate_call_seconds", "tool" => tool).record(duration);
    if sealed.is_error {
        metrics::counter!("cellgate_errors_total", "tool" => tool, "code" => code.clone()).increment(1);
    }
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(tool, outcome = code, milliseconds, "call");
}
