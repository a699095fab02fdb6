//! MCP sessions of the 2025 protocol versions: whose they are, and what it takes to go on with them after a
//! restart of the gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use rusqlite::{OptionalExtension, named_params};

use super::envelope;
use crate::database::Database;
use crate::mcp::of_session;
use crate::sandbox::Owner;
use crate::workspace::Workspaces;

/// How long a session is kept that nobody goes on with.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How often it is noted that a session is in use, at least.
const NOTE_EVERY: Duration = Duration::from_secs(3600);
const HEADER: &str = "mcp-session-id";

/// The sessions of a data directory.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Inner>);

struct Inner {
    database: Arc<Database>,
    workspaces: Arc<Workspaces>,
    /// Those that were used lately, with when that was noted.
    owners: Mutex<HashMap<String, (Owner, Instant)>>,
}

/// Lets a request through to its own session: another's, or one that is gone, is answered as one that never was.
pub(super) async fn check(State(sessions): State<Sessions>, request: Request, next: Next) -> Response {
    let owner = request.extensions().get::<Owner>().cloned().unwrap_or_else(Owner::local);
    let asked = id_in(request.headers());
    if let Some(id) = &asked
        && sessions.owner(id).as_ref() != Some(&owner)
    {
        return envelope::session_not_found(&request);
    }
    let ends = request.method() == Method::DELETE;
    let response = next.run(request).await;
    match (asked, id_in(response.headers())) {
        (Some(id), _) if ends && response.status().is_success() => sessions.end(&owner, &id).await,
        (None, Some(new)) => sessions.begin(&owner, &new),
        _ => {}
    }
    response
}

fn id_in(headers: &HeaderMap) -> Option<String> {
    headers.get(HEADER)?.to_str().ok().map(str::to_owned)
}

impl Sessions {
    /// The sessions in `database`; what nobody went on with for long is dropped.
    pub(super) fn open(database: Arc<Database>, workspaces: Arc<Workspaces>) -> rusqlite::Result<Self> {
        let old = (Timestamp::now() - KEPT).to_string();
        let sql = "DELETE FROM sessions WHERE used_at < :old";
        database.with(|connection| connection.execute(sql, named_params! {":old": old}))?;
        Ok(Self(Arc::new(Inner { database, workspaces, owners: Mutex::default() })))
    }

    fn owner(&self, id: &str) -> Option<Owner> {
        if let Some((owner, noted_at)) = self.owners().get(id)
            && noted_at.elapsed() < NOTE_EVERY
        {
            return Some(owner.clone());
        }
        let owner = self.saved_owner(id).unwrap_or_else(|error| {
            tracing::error!(%error, "the sessions can't be read");
            None
        })?;
        self.owners().insert(id.to_owned(), (owner.clone(), Instant::now()));
        Some(owner)
    }

    fn saved_owner(&self, id: &str) -> rusqlite::Result<Option<Owner>> {
        let sql = "UPDATE sessions SET used_at = :now WHERE id = :id AND tenant <> '' RETURNING tenant, principal";
        let asked = named_params! {":id": id, ":now": Timestamp::now().to_string()};
        self.0.database.with(|connection| {
            let owner = |row: &rusqlite::Row<'_>| Ok(Owner { tenant: row.get(0)?, principal: row.get(1)? });
            connection.query_row(sql, asked, owner).optional()
        })
    }

    /// The client hears of the session only after this.
    fn begin(&self, owner: &Owner, id: &str) {
        let sql = "INSERT INTO sessions (id, tenant, principal, used_at) VALUES (:id, :tenant, :principal, :now)
            ON CONFLICT DO UPDATE SET tenant = :tenant, principal = :principal";
        let begun = named_params! {
            ":id": id, ":tenant": owner.tenant, ":principal": owner.principal, ":now": Timestamp::now().to_string()
        };
        if let Err(error) = self.0.database.with(|connection| connection.prepare_cached(sql)?.execute(begun)) {
            tracing::error!(%error, "a session can't be saved; it ends with this gateway");
        }
        self.owners().insert(id.to_owned(), (owner.clone(), Instant::now()));
    }

    async fn end(&self, owner: &Owner, id: &str) {
        self.owners().remove(id);
        self.0.workspaces.close(owner, &of_session(id)).await;
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, (Owner, Instant)>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl SessionStore for Sessions {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let sql = "SELECT state FROM sessions WHERE id = :id";
        let state: Option<Option<String>> = self
            .0
            .database
            .with(|connection| connection.query_row(sql, named_params! {":id": id}, |row| row.get(0)).optional())?;
        Ok(state.flatten().map(|state| serde_json::from_str(&state)).transpose()?)
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        // Whose it is comes with the answer to the same request.
        let sql = "INSERT INTO sessions (id, tenant, principal, state, used_at) VALUES (:id, '', '', :state, :now)
            ON CONFLICT DO UPDATE SET state = :state";
        let state = serde_json::to_string(state)?;
        let stored = named_params! {":id": id, ":state": state, ":now": Timestamp::now().to_string()};
        self.0.database.with(|connection| connection.prepare_cached(sql)?.execute(stored))?;
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        let sql = "DELETE FROM sessions WHERE id = :id";
        self.0.database.with(|connection| connection.execute(sql, named_params! {":id": id}))?;
        Ok(())
    }
}
