//! Answers on their way out, which a gateway that stops waits for.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
use tokio_util::task::TaskTracker;

/// Counts the answer to a POST among those on their way until its last byte is handed over or the client is gone.
pub(super) async fn follow(State(answers): State<TaskTracker>, request: Request, next: Next) -> Response {
    // A GET's stream of notifications ends only with its session.
    let on_its_way = (request.method() == Method::POST).then(|| answers.token());
    let (parts, body) = next.run(request).await.into_parts();
    let is_stream =
        parts.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return Response::from_parts(parts, body);
    }
    let followed = body.into_data_stream().map(move |chunk| {
        let _ = &on_its_way;
        chunk
    });
    Response::from_parts(parts, Body::from_stream(followed))
}
