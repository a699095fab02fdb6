//! Prometheus' text format. Nothing is labelled by sandbox, caller or path.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::workspace::Workspaces;

/// Upper bounds in seconds: a listing takes milliseconds, a run may take an hour.
const BUCKETS: [f64; 11] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1200.0, 3600.0];

/// The recorder of this process, made with the first use.
static RECORDER: LazyLock<Option<PrometheusHandle>> = LazyLock::new(|| {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("cellgate_call_seconds".to_owned()), &BUCKETS)
        .ok()?;
    builder.install_recorder().ok()
});

/// Starts recording; what was counted before is lost.
pub(super) fn record() {
    LazyLock::force(&RECORDER);
}

/// Everything that was counted, with the state of the sandboxes at this moment.
pub(super) async fn render(State(workspaces): State<Arc<Workspaces>>) -> impl IntoResponse {
    let fleet = workspaces.fleet();
    for (status, count) in fleet.count_by_status() {
        metrics::gauge!("cellgate_sandboxes", "status" => status).set(gauge(count));
    }
    let queues = fleet.queue_lengths();
    metrics::gauge!("cellgate_kernels").set(gauge(queues.len()));
    metrics::gauge!("cellgate_queued_runs").set(gauge(queues.iter().sum()));
    let text = RECORDER.as_ref().map(|recorder| {
        recorder.run_upkeep();
        recorder.render()
    });
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.unwrap_or_default())
}

/// A count as Prometheus has it.
fn gauge(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
