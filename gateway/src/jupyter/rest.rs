//! The REST half of a Jupyter server: one request, its answer, and what a refusal means.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode, header};
use reqwest::{Client, ClientBuilder, Response, redirect::Policy};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::{Host, Url};

use super::JupyterError;

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 128 << 20;
/// How much of Jupyter's own words an error repeats, in characters.
const MAX_MESSAGE: usize = 300;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long most requests may take; starting a kernel or storing a large file needs a while.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// For sandboxes, and servers on this machine, without TLS: a machine that has no CA certificates will do.
static PLAIN: LazyLock<Result<Client, String>> = LazyLock::new(|| built(builder().no_proxy().tls_certs_only([])));
/// For servers on this machine.
static DIRECT: LazyLock<Result<Client, String>> = LazyLock::new(|| built(builder().no_proxy()));
/// For all others, by a proxy where the environment names one.
static PROXIED: LazyLock<Result<Client, String>> = LazyLock::new(|| built(builder()));

/// Where a Jupyter server is, and how it is asked. Cheap to clone.
#[derive(Clone)]
pub(super) struct Rest(Arc<Inner>);

struct Inner {
    base: Url,
    token: Option<SecretString>,
    authorization: Option<HeaderValue>,
    client: Client,
    addresses: Option<Vec<IpAddr>>,
}

/// How a server is reached.
pub(super) enum Route {
    /// By a proxy where the environment names one, unless it is on this machine.
    Usual,
    /// Never by a proxy: it is one of ours.
    Direct,
    /// At these addresses alone.
    Pinned(Vec<IpAddr>),
}

/// One request.
pub(super) struct Call {
    method: Method,
    url: Url,
    body: Option<Value>,
    limit: Duration,
    /// What the error says is not there, when it isn't.
    subject: String,
}

impl Rest {
    pub(super) fn new(base: Url, token: Option<SecretString>, route: Route) -> Result<Self, JupyterError> {
        let authorization = token.as_ref().map(authorization).transpose()?;
        let is_direct = matches!(route, Route::Direct) || is_loopback(&base);
        let client = match &route {
            Route::Pinned(addresses) => pinned(&base, addresses),
            _ if is_direct && base.scheme() == "http" => LazyLock::force(&PLAIN).clone(),
            _ if is_direct => LazyLock::force(&DIRECT).clone(),
            _ => LazyLock::force(&PROXIED).clone(),
        };
        let addresses = if let Route::Pinned(addresses) = route { Some(addresses) } else { None };
        let client = client.map_err(|reason| JupyterError::Unreachable { host: host(&base), reason })?;
        Ok(Self(Arc::new(Inner { base, token, authorization, client, addresses })))
    }

    /// The only addresses to connect to, if that was decided.
    pub(super) fn addresses(&self) -> Option<&[IpAddr]> {
        self.0.addresses.as_deref()
    }

    pub(super) fn base(&self) -> &Url {
        &self.0.base
    }

    pub(super) fn token(&self) -> Option<&SecretString> {
        self.0.token.as_ref()
    }

    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.0.authorization.as_ref()
    }

    pub(super) fn host(&self) -> String {
        host(&self.0.base)
    }

    /// The URL below the base that these names lead to, each encoded for itself.
    pub(super) fn url<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.0.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(names);
        }
        url
    }

    /// A request to `api/…`.
    pub(super) fn call<'a>(&self, method: Method, names: impl IntoIterator<Item = &'a str>) -> Call {
        let url = self.url(std::iter::once("api").chain(names));
        Call { method, url, body: None, limit: REQUEST_LIMIT, subject: "such thing".to_owned() }
    }

    /// Asks, and reads the JSON of a good answer.
    pub(super) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T, JupyterError> {
        let bytes = self.send(call).await?;
        serde_json::from_slice(&bytes).map_err(|error| match bytes.first() {
            Some(b'<') => self.not_jupyter("it answers with a web page"),
            _ => JupyterError::Malformed(shorten(&error.to_string())),
        })
    }

    /// Asks, and wants no more than a good answer.
    pub(super) async fn done(&self, call: Call) -> Result<(), JupyterError> {
        self.send(call).await.map(drop)
    }

    /// The failure of something that answers, but not as Jupyter does.
    pub(super) fn not_jupyter(&self, reason: &str) -> JupyterError {
        JupyterError::NotAJupyter { url: self.0.base.to_string(), reason: reason.to_owned() }
    }

    async fn send(&self, call: Call) -> Result<Vec<u8>, JupyterError> {
        let mut request = self.0.client.request(call.method, call.url).timeout(call.limit);
        if let Some(authorization) = &self.0.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(self.redirected(&response));
        }
        let is_api = is_json(&response);
        let bytes = self.read(response).await?;
        match status {
            _ if status.is_success() => Ok(bytes),
            // A 404 of Jupyter's API is JSON; a page comes from something else, or from a wrong prefix.
            StatusCode::NOT_FOUND if !is_api => Err(self.not_jupyter("HTTP 404")),
            _ => Err(self.refusal(status, &bytes, call.subject)),
        }
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, JupyterError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(JupyterError::TooLarge);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn refusal(&self, status: StatusCode, body: &[u8], what: String) -> JupyterError {
        let message = self.message(body);
        let message = message.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason given").to_owned());
        match status {
            StatusCode::UNAUTHORIZED => JupyterError::Unauthorized { host: self.host() },
            // Jupyter blames a missing `_xsrf` argument for a missing token.
            StatusCode::FORBIDDEN if !message.to_ascii_lowercase().contains("permission denied") => {
                JupyterError::Unauthorized { host: self.host() }
            }
            StatusCode::NOT_FOUND => JupyterError::NotFound { what },
            StatusCode::PAYLOAD_TOO_LARGE => JupyterError::TooLarge,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                JupyterError::Unreachable { host: self.host(), reason: format!("HTTP {}", status.as_u16()) }
            }
            _ if is_disk_full(&message) => JupyterError::DiskFull { message },
            _ => JupyterError::Refused { status: status.as_u16(), message },
        }
    }

    /// What the body of a refusal says; Jupyter answers plain text under a JSON type at times.
    fn message(&self, body: &[u8]) -> Option<String> {
        let body = String::from_utf8_lossy(body);
        let text = match serde_json::from_str::<Value>(&body) {
            Ok(body) => {
                let said = |key: &str| body.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                said("message").or_else(|| said("reason"))?
            }
            Err(_) if body.trim().is_empty() || body.trim_start().starts_with('<') => return None,
            Err(_) => body.into_owned(),
        };
        let masked = match self.token().map(ExposeSecret::expose_secret) {
            Some(token) if !token.is_empty() => text.replace(token, "[token]"),
            _ => text,
        };
        Some(shorten(&masked))
    }

    fn redirected(&self, response: &Response) -> JupyterError {
        let location =
            response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path = location.split(['?', '#']).next().unwrap_or_default();
        if path.contains("/login") || path.contains("/hub/") || path.contains("/oauth") {
            return JupyterError::Unauthorized { host: self.host() };
        }
        self.not_jupyter(&format!("it redirects to '{}'", shorten(path)))
    }

    fn unreachable(&self, error: &reqwest::Error) -> JupyterError {
        JupyterError::Unreachable { host: self.host(), reason: reason(error) }
    }
}

impl Call {
    pub(super) fn query(mut self, key: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(key, value);
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Writes the first letter of these names as an escape where one of them is a segment of the path.
    pub(super) fn spelled_out(mut self, names: &[&str]) -> Self {
        let spelled = |segment: &str| match segment.bytes().next() {
            Some(first) if names.contains(&segment) => format!("%{first:02X}{}", &segment[1..]),
            _ => segment.to_owned(),
        };
        let path: Vec<String> = self.url.path().split('/').map(spelled).collect();
        self.url.set_path(&path.join("/"));
        self
    }

    pub(super) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(super) fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }
}

/// Whether `id` has the form of a kernel's or session's id, as Jupyter's own routes have it.
pub(super) fn is_id(id: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    id.len() <= 128 && id.split('-').count() == 5 && id.split('-').all(is_word)
}

fn is_json(response: &Response) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.starts_with("application/json"))
}

fn built(builder: ClientBuilder) -> Result<Client, String> {
    builder.build().map_err(|error| reason(&error))
}

/// A client that connects only to those addresses; a proxy would look the name up for itself.
fn pinned(base: &Url, addresses: &[IpAddr]) -> Result<Client, String> {
    let sockets: Vec<_> = addresses.iter().map(|address| SocketAddr::from((*address, 0))).collect();
    built(builder().no_proxy().resolve_to_addrs(base.host_str().unwrap_or_default(), &sockets))
}

fn builder() -> ClientBuilder {
    // A redirect could carry the token to another host.
    let builder = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_LIMIT).tcp_nodelay(true);
    builder.pool_idle_timeout(Duration::from_secs(30))
}

fn authorization(token: &SecretString) -> Result<HeaderValue, JupyterError> {
    let value = HeaderValue::from_str(&format!("token {}", token.expose_secret()));
    let mut value = value.map_err(|_| {
        JupyterError::InvalidUrl(
            "The token holds characters that no HTTP header can carry: check that it was copied whole.".to_owned(),
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_loopback(base: &Url) -> bool {
    match base.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        None => false,
    }
}

fn host(base: &Url) -> String {
    let name = base.host_str().unwrap_or_default();
    base.port_or_known_default().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

fn is_disk_full(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["no space left", "errno 28", "disk quota", "errno 122"].iter().any(|words| message.contains(words))
}

fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    // The outermost one's words repeat the URL.
    if error.source().is_none() { "the request failed".to_owned() } else { shorten(&innermost.to_string()) }
}

/// One line, not too long.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect()
}

/// Somebody else's words, as a part of a sentence.
pub(super) fn shorten(text: &str) -> String {
    one_line(text).trim_end_matches([' ', '.']).to_owned()
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0.base.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest() -> Rest {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Rest::new(Url::parse("http://h:1/pre/").unwrap(), Some("s3cret".into()), Route::Usual).unwrap()
    }

    fn refusal(status: u16, body: &str) -> JupyterError {
        rest().refusal(StatusCode::from_u16(status).unwrap(), body.as_bytes(), "file 'a'".to_owned())
    }

    #[test]
    fn refusals_are_told_apart() {
        let host = "h:1".to_owned();
        let xsrf = r#"{"message": "'_xsrf' argument missing from POST", "reason": null}"#;
        assert_eq!(refusal(403, xsrf), JupyterError::Unauthorized { host: host.clone() });
        assert_eq!(refusal(401, ""), JupyterError::Unauthorized { host });
        assert!(matches!(
            refusal(403, r#"{"message":"Permission denied: x"}"#),
            JupyterError::Refused { status: 403, .. }
        ));
        assert_eq!(refusal(404, "no file"), JupyterError::NotFound { what: "file 'a'".to_owned() });
        assert!(matches!(refusal(500, r#"{"message":"[Errno 28] No space left"}"#), JupyterError::DiskFull { .. }));
        assert!(matches!(refusal(502, "<html>"), JupyterError::Unreachable { .. }));
        assert_eq!(refusal(413, ""), JupyterError::TooLarge);
    }

    #[test]
    fn a_refusal_repeats_neither_the_token_nor_a_page() {
        assert!(
            !refusal(
                400,
                r#"{"message":"bad s3cret
thing"}"#
            )
            .to_string()
            .contains("s3cret")
        );
        assert_eq!(refusal(400, "<html>"), JupyterError::Refused { status: 400, message: "Bad Request".to_owned() });
        assert!(refusal(400, &"x".repeat(10_000)).to_string().len() < 400);
    }

    #[test]
    fn ids_are_no_paths() {
        assert!(is_id("68b63171-e19e-44da-9edc-4efe49081958"));
        for id in ["", "..", "x", "a-b-c-d", "a-b-c-d-..", "a-b-c-d-/", "a-b-c-d-é", "----"] {
            assert!(!is_id(id), "{id}");
        }
    }
}
