//! Who is calling, from the bearer token of each request.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Tokens;
use crate::sandbox::Owner;

/// Lets a request through with its owner, or answers 401. Without tokens everyone is the local owner.
pub(super) async fn require(State(tokens): State<Option<Arc<Tokens>>>, mut request: Request, next: Next) -> Response {
    let owner = match tokens {
        None => Some(Owner::local()),
        Some(tokens) => shown(request.headers()).and_then(|token| tokens.owner(token)),
    };
    let Some(owner) = owner else {
        let body = "Unauthorized: send the gateway's token as 'Authorization: Bearer TOKEN'.\n";
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer realm=\"cellgate\"")], body)
            .into_response();
    };
    request.extensions_mut().insert(owner);
    next.run(request).await
}

/// The bearer token that a request shows.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
