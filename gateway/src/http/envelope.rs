//! JSON-RPC answers for what never becomes a call: a body that is no JSON, a session that is gone.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::MAX_BODY;

/// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
/// MCP Streamable HTTP, "Session Management": 404, and the client starts a new session.
const SESSION_NOT_FOUND: i32 = -32001;

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Value,
}

/// Reads the envelope of a POST, so that every refusal carries the request's own id.
pub(super) async fn check(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        let message = format!("The request is larger than {MAX_BODY} bytes.");
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, &Value::Null, (PARSE_ERROR, &message));
    };
    let Ok(envelope) = serde_json::from_slice::<Envelope>(&body) else {
        return refusal(
            StatusCode::BAD_REQUEST,
            &Value::Null,
            (PARSE_ERROR, "Parse error: the body is not a JSON-RPC object."),
        );
    };
    let in_session = parts.headers.contains_key("mcp-session-id");
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    if in_session && response.status() == StatusCode::NOT_FOUND {
        let message = "Session not found: it ended or was never started. Send initialize again.";
        return refusal(StatusCode::NOT_FOUND, &envelope.id, (SESSION_NOT_FOUND, message));
    }
    response
}

fn refusal(status: StatusCode, id: &Value, (code, message): (i32, &str)) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    (status, axum::Json(body)).into_response()
}
