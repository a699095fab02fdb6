//! The pointers of workspaces as they are saved: what a caller has open is there again after a restart.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, named_params};
use serde::{Deserialize, Serialize};

use super::binding::Binding;
use crate::database::Database;
use crate::sandbox::{Owner, SandboxId};

/// How long the pointers of a workspace are kept that nobody uses.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The pointers of one workspace.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Saved {
    pub(super) active: Option<SandboxId>,
    pub(super) ended: bool,
    pub(super) notebooks: Vec<SavedNotebook>,
    pub(super) current: Option<String>,
    pub(super) scratch: BTreeMap<SandboxId, String>,
}

/// An open notebook.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedNotebook {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) sandbox: String,
    pub(super) kernel: Option<Binding>,
}

/// Where pointers are saved.
pub(super) struct Pointers(Arc<Database>);

impl Pointers {
    /// Those in `database`; what nobody used for long is dropped.
    pub(super) fn open(database: Arc<Database>) -> rusqlite::Result<Self> {
        let old = (Timestamp::now() - KEPT).to_string();
        let sql = "DELETE FROM workspaces WHERE used_at < :old";
        database.with(|connection| connection.execute(sql, named_params! {":old": old}))?;
        Ok(Self(database))
    }

    /// The saved pointers of a workspace, as text.
    pub(super) fn load(&self, (owner, name): (&Owner, &str)) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT state FROM workspaces WHERE tenant = :tenant AND principal = :principal AND name = :name";
        let of = named_params! {":tenant": owner.tenant, ":principal": owner.principal, ":name": name};
        self.0.with(|connection| connection.prepare_cached(sql)?.query_row(of, |row| row.get(0)).optional())
    }

    /// Saves the pointers of a workspace.
    pub(super) fn save(&self, (owner, name): (&Owner, &str), state: &str) -> rusqlite::Result<()> {
        let sql = "INSERT INTO workspaces VALUES (:tenant, :principal, :name, :state, :now)
            ON CONFLICT DO UPDATE SET state = :state, used_at = :now";
        let saved = named_params! {
            ":tenant": owner.tenant, ":principal": owner.principal, ":name": name, ":state": state,
            ":now": Timestamp::now().to_string()
        };
        self.0.with(|connection| connection.prepare_cached(sql)?.execute(saved).map(drop))
    }

    /// Forgets a workspace.
    pub(super) fn forget(&self, (owner, name): (&Owner, &str)) -> rusqlite::Result<()> {
        let sql = "DELETE FROM workspaces WHERE tenant = :tenant AND principal = :principal AND name = :name";
        let of = named_params! {":tenant": owner.tenant, ":principal": owner.principal, ":name": name};
        self.0.with(|connection| connection.execute(sql, of).map(drop))
    }

    /// Forgets everyone's workspaces of that name.
    pub(super) fn forget_named(&self, name: &str) -> rusqlite::Result<()> {
        let sql = "DELETE FROM workspaces WHERE name = :name";
        self.0.with(|connection| connection.execute(sql, named_params! {":name": name}).map(drop))
    }

    /// What follows `prefix` in the names of the workspaces that begin so.
    pub(super) fn instances(&self, prefix: &str) -> rusqlite::Result<Vec<String>> {
        let sql =
            "SELECT substr(name, length(:prefix) + 1) FROM workspaces WHERE substr(name, 1, length(:prefix)) = :prefix";
        self.0.with(|connection| {
            connection.prepare(sql)?.query_map(named_params! {":prefix": prefix}, |row| row.get(0))?.collect()
        })
    }

    /// The names of an owner's notebooks that are open, by sandbox; in alphabetical order.
    pub(super) fn notebooks(&self, owner: &Owner) -> rusqlite::Result<HashMap<String, Vec<String>>> {
        let sql = "SELECT state FROM workspaces WHERE tenant = :tenant AND principal = :principal";
        let of = named_params! {":tenant": owner.tenant, ":principal": owner.principal};
        let states: Vec<String> = self.0.with(|connection| {
            connection.prepare_cached(sql)?.query_map(of, |row| row.get(0))?.collect::<Result<_, _>>()
        })?;
        let mut notebooks = HashMap::<String, Vec<String>>::new();
        for notebook in states.iter().filter_map(|state| parse(state)).flat_map(|saved| saved.notebooks) {
            notebooks.entry(notebook.sandbox).or_default().push(notebook.name);
        }
        for names in notebooks.values_mut() {
            names.sort();
            names.dedup();
        }
        Ok(notebooks)
    }

    /// The workspaces of everyone that have a kernel in use.
    pub(super) fn users_of_kernel(&self, kernel: &str) -> rusqlite::Result<Vec<(Owner, String)>> {
        let sql = "SELECT tenant, principal, name FROM workspaces WHERE instr(state, :kernel) > 0";
        self.0.with(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let users = statement.query_map(named_params! {":kernel": kernel}, |row| {
                Ok((Owner { tenant: row.get(0)?, principal: row.get(1)? }, row.get(2)?))
            })?;
            users.collect()
        })
    }
}

/// Pointers from their text; none from a text of another version.
pub(super) fn parse(state: &str) -> Option<Saved> {
    serde_json::from_str(state).inspect_err(|error| tracing::warn!(%error, "saved pointers can't be read")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_belong_to_a_workspace_and_are_found_by_kernel_and_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        let pointers = Pointers::open(Arc::new(Database::open(folder.path()).unwrap())).unwrap();
        let (ann, bob) = (Owner::local(), Owner { tenant: "t".into(), principal: "bob".into() });
        let notebook = |name: &str| SavedNotebook {
            name: name.to_owned(),
            path: "p.ipynb".to_owned(),
            sandbox: "box".to_owned(),
            kernel: None,
        };
        let state = Saved {
            notebooks: vec![notebook("b"), notebook("a")],
            current: Some("k-1".to_owned()),
            ..Saved::default()
        };
        let text = serde_json::to_string(&state).unwrap();
        pointers.save((&ann, "w"), &text).unwrap();
        pointers.save((&ann, "v"), &text).unwrap();
        assert_eq!(pointers.load((&ann, "w")).unwrap().as_deref(), Some(text.as_str()));
        assert!(pointers.load((&bob, "w")).unwrap().is_none() && pointers.load((&ann, "x")).unwrap().is_none());
        assert_eq!(pointers.notebooks(&ann).unwrap()["box"], ["a", "b"]);
        assert!(pointers.notebooks(&bob).unwrap().is_empty());
        assert_eq!(pointers.users_of_kernel("k-1").unwrap().len(), 2);
        pointers.forget((&ann, "w")).unwrap();
        assert_eq!(pointers.users_of_kernel("k-1").unwrap(), [(ann.clone(), "v".to_owned())]);
        pointers.save((&ann, "process:i"), &text).unwrap();
        assert_eq!(pointers.instances("process:").unwrap(), ["i"]);
        pointers.forget_named("v").unwrap();
        assert!(pointers.load((&ann, "v")).unwrap().is_none() && parse("{}").is_none());
    }
}
