//! The ids that cells go by where their file stores none, saved: they keep working over a restart, and in the next life of
//! the sandbox.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, named_params};

use super::lock;
use crate::database::Database;
use crate::nbformat::{CellIds, Notebook};
use crate::sandbox::Owner;

/// How long the ids of a notebook are kept that nobody works on.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Drops the ids of notebooks that nobody worked on for long.
pub(super) fn forget_old(database: &Database) -> rusqlite::Result<()> {
    let old = (Timestamp::now() - KEPT).to_string();
    let sql = "DELETE FROM cell_ids WHERE used_at < :old";
    database.with(|connection| connection.execute(sql, named_params! {":old": old}).map(drop))
}

/// Where the ids of one notebook are saved.
pub(super) struct SavedIds {
    pub(super) database: Arc<Database>,
    pub(super) owner: Owner,
    pub(super) sandbox: String,
    pub(super) path: String,
    /// As they were last saved.
    pub(super) last: Mutex<CellIds>,
}

impl SavedIds {
    /// The ids as they were saved.
    pub(super) fn load(&self) -> CellIds {
        let sql = "SELECT ids FROM cell_ids
            WHERE tenant = :tenant AND principal = :principal AND sandbox = :sandbox AND path = :path";
        let of = named_params! {
            ":tenant": self.owner.tenant, ":principal": self.owner.principal, ":sandbox": self.sandbox, ":path": self.path
        };
        let found: rusqlite::Result<Option<String>> =
            self.database.with(|connection| connection.prepare_cached(sql)?.query_row(of, |row| row.get(0)).optional());
        let text = found.inspect_err(|error| tracing::error!(%error, "the ids of cells can't be read")).ok().flatten();
        let ids: CellIds = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        *lock(&self.last) = ids.clone();
        ids
    }

    /// Saves them if they changed, unless the file has them.
    pub(super) fn keep(&self, ids: &CellIds, notebook: &Notebook) {
        let mut last = lock(&self.last);
        if notebook.stores_ids() || *last == *ids {
            return;
        }
        match self.save(ids) {
            Ok(()) => last.clone_from(ids),
            Err(error) => tracing::error!(%error, "the ids of cells can't be saved"),
        }
    }

    fn save(&self, ids: &CellIds) -> rusqlite::Result<()> {
        let sql = "INSERT INTO cell_ids VALUES (:tenant, :principal, :sandbox, :path, :ids, :now)
            ON CONFLICT DO UPDATE SET ids = :ids, used_at = :now";
        let saved = named_params! {
            ":tenant": self.owner.tenant, ":principal": self.owner.principal, ":sandbox": self.sandbox, ":path": self.path,
            ":ids": serde_json::to_string(ids).unwrap_or_default(), ":now": Timestamp::now().to_string()
        };
        self.database.with(|connection| connection.prepare_cached(sql)?.execute(saved).map(drop))
    }
}
