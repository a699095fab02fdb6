//! Who is calling, from the bearer token of each request.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::sandbox::Owner;

/// What a request has to show.
#[derive(Clone)]
pub(super) struct Credential(Option<Arc<[u8; 32]>>);

impl Credential {
    pub(super) fn new(token: Option<SecretString>) -> Self {
        Self(token.map(|token| Arc::new(digest(token.expose_secret()))))
    }

    /// The caller who shows `token`. Digests are compared, so the time taken tells nothing of the token.
    fn owner(&self, token: Option<&str>) -> Option<Owner> {
        match (&self.0, token) {
            (None, _) => Some(Owner::local()),
            (Some(expected), Some(token)) if digest(token) == **expected => Some(Owner::local()),
            _ => None,
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Lets a request through with its owner, or answers 401.
pub(super) async fn require(State(credential): State<Credential>, mut request: Request, next: Next) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    let Some(owner) = credential.owner(token) else {
        let body = "Unauthorized: send the gateway's token as 'Authorization: Bearer TOKEN'.\n";
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer realm=\"cellgate\"")], body)
            .into_response();
    };
    request.extensions_mut().insert(owner);
    next.run(request).await
}
