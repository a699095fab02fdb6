//! The records on disk, shared by the gateways of a data directory.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, named_params};

use super::{FleetError, Owner, Record, SandboxId, Status};
use crate::database::Database;

/// How long the record of a sandbox that ended is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long a gateway may take to end a sandbox.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(50);
const LIVE: &str = "status IN ('pending', 'starting', 'running', 'terminating')";
/// What a record is read from, in this order: to look each up by its name takes longer than all the rest.
const COLUMNS: &str =
    "id, tenant, principal, name, variant, generation, instance, status, status_reason, url, image, environment,
    gpu, created_at, last_activity_at, expires_at, digest, files, backend, idle_seconds, key_id, wish, wish_reason, ephemeral";
const VALUES: &str = ":id, :tenant, :principal, :name, :variant, :generation, :instance, :status, :status_reason, :url, :image,
    :environment, :gpu, :created_at, :last_activity_at, :expires_at, :digest, :files, :backend, :idle_seconds, :key_id, :wish,
    :wish_reason, :ephemeral";
const UPDATE: &str = "generation = :generation, instance = :instance, status = :status, status_reason = :status_reason,
    url = :url, image = :image, last_activity_at = :last_activity_at, expires_at = :expires_at, files = :files, backend = :backend";

/// An owner's records but those of servers that are attached to another living instance.
const SEEN: &str = "sandboxes WHERE tenant = :tenant AND principal = :principal AND NOT (variant = 'jupyter-server'
    AND instance <> :instance AND status IN ('pending', 'starting', 'running', 'terminating'))";

/// How many sandboxes may live at once.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Of one principal.
    pub per_principal: usize,
    /// Of all.
    pub in_all: usize,
}

/// Why an intent was not written down.
pub(super) enum Refused {
    /// The owner has that many; their names.
    Principal(Vec<String>),
    /// There are that many of everyone.
    InAll,
    /// Another live sandbox of the owner has the name.
    Name,
    /// The records can't be written.
    Database(rusqlite::Error),
}

/// The table of records.
#[derive(Clone)]
pub struct Records(Arc<Database>);

impl Records {
    /// The records in `database`.
    pub fn new(database: Arc<Database>) -> Self {
        Self(database)
    }

    /// Drops the records of sandboxes that ended long ago.
    pub(super) fn forget_old(&self) -> rusqlite::Result<()> {
        let old = (Timestamp::now() - KEPT).to_string();
        let sql = format!("DELETE FROM sandboxes WHERE NOT {LIVE} AND last_activity_at < :old");
        self.0.with(|connection| connection.execute(&sql, named_params! {":old": old}).map(drop))
    }

    /// Writes a new record down if there is room for one more sandbox, with its sealed secret if it has one.
    ///
    /// Counted and written as one step, whichever gateways launch at the same time.
    pub(super) fn intend(&self, record: &Record, secret: Option<&[u8]>, room: Capacity) -> Result<(), Refused> {
        let intend = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let of = format!("SELECT name FROM {SEEN} AND {LIVE}");
            let owner = named_params! {
                ":tenant": record.owner.tenant, ":principal": record.owner.principal, ":instance": record.instance
            };
            let names: Vec<String> =
                transaction.prepare_cached(&of)?.query_map(owner, |row| row.get(0))?.collect::<Result<_, _>>()?;
            if names.len() >= room.per_principal {
                return Ok(Err(Refused::Principal(names)));
            }
            let all = format!("SELECT count(*) FROM sandboxes WHERE {LIVE}");
            if transaction.query_row(&all, [], |row| row.get::<_, usize>(0))? >= room.in_all {
                return Ok(Err(Refused::InAll));
            }
            put(&transaction, record)?;
            let secret = named_params! {":secret": secret, ":id": record.id.as_str()};
            transaction.execute("UPDATE sandboxes SET secret = :secret WHERE id = :id", secret)?;
            transaction.commit().map(Ok)
        };
        match self.0.with(intend) {
            Ok(intended) => intended,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Err(Refused::Name),
            Err(error) => Err(Refused::Database(error)),
        }
    }

    /// Writes a record, new or changed, but for its wish.
    pub(super) fn put(&self, record: &Record) -> rusqlite::Result<()> {
        self.0.with(|connection| put(connection, record))
    }

    /// Writes down when a sandbox was last used, if it runs.
    pub(super) fn used(&self, id: &SandboxId, at: Timestamp) -> rusqlite::Result<()> {
        let sql = "UPDATE sandboxes SET last_activity_at = :at WHERE id = :id AND status = 'running'";
        let used = named_params! {":at": at.to_string(), ":id": id.as_str()};
        self.0.with(|connection| connection.prepare_cached(sql)?.execute(used).map(drop))
    }

    /// Writes down that a sandbox is to end, and why. The first wish stands.
    pub(super) fn wish(&self, id: &SandboxId, end: Status, reason: &str) -> rusqlite::Result<()> {
        let sql = format!(
            "UPDATE sandboxes SET wish = :wish, wish_reason = :reason WHERE id = :id AND wish = 'running' AND {LIVE}"
        );
        let wished = named_params! {":wish": end.as_str(), ":reason": reason, ":id": id.as_str()};
        self.0.with(|connection| connection.prepare_cached(&sql)?.execute(wished).map(drop))
    }

    /// The id of the data directory, by which what is made for it elsewhere is told apart from what is made for others.
    pub(super) fn directory(&self) -> rusqlite::Result<String> {
        self.0.with(|connection| connection.query_row("SELECT id FROM directory", [], |row| row.get(0)))
    }

    /// The live records of an instance that are to end.
    pub(super) fn to_end(&self, instance: &str) -> rusqlite::Result<Vec<Record>> {
        let sql =
            format!("SELECT {COLUMNS} FROM sandboxes WHERE instance = :instance AND wish <> 'running' AND {LIVE}");
        self.select(&sql, named_params! {":instance": instance})
    }

    /// Makes `heir` look after a record if `dead` does still; whether it does now.
    pub(super) fn take_over(&self, id: &SandboxId, dead: &str, heir: &str) -> rusqlite::Result<bool> {
        let sql = "UPDATE sandboxes SET instance = :heir WHERE id = :id AND instance = :dead";
        let taken = named_params! {":heir": heir, ":id": id.as_str(), ":dead": dead};
        self.0.with(|connection| connection.prepare_cached(sql)?.execute(taken).map(|rows| rows == 1))
    }

    /// The sealed secret of a sandbox.
    pub(super) fn secret(&self, id: &SandboxId) -> rusqlite::Result<Option<Vec<u8>>> {
        let sql = "SELECT secret FROM sandboxes WHERE id = :id";
        self.0.with(|connection| connection.query_row(sql, named_params! {":id": id.as_str()}, |row| row.get(0)))
    }

    /// Takes the files of a name away by `take`, unless a sandbox of that name lives; whether it did. No sandbox of any
    /// name is launched meanwhile.
    pub(super) fn unless_live(
        &self,
        owner: &Owner,
        name: &str,
        take: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<bool, FleetError> {
        let of = "tenant = :tenant AND principal = :principal AND name = :name";
        let named = named_params! {":tenant": owner.tenant, ":principal": owner.principal, ":name": name};
        let taken = self.0.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let live = format!("SELECT count(*) FROM sandboxes WHERE {of} AND {LIVE}");
            if transaction.query_row(&live, named, |row| row.get::<_, i64>(0))? > 0 {
                return Ok(None);
            }
            let taken = take();
            if taken.is_ok() {
                // On a full disk, where deleting is what helps, it can't be noted. What is not there is seen without.
                let noted = transaction.execute(&format!("UPDATE sandboxes SET files = NULL WHERE {of}"), named);
                if let Err(error) = noted.and_then(|_| transaction.commit()) {
                    tracing::warn!(%error, "it can't be noted that files were deleted");
                }
            }
            Ok(Some(taken))
        })?;
        taken.transpose().map(|taken| taken.is_some()).map_err(FleetError::from)
    }

    /// The newest record of that name or id that `instance` may see.
    pub(super) fn find(&self, owner: &Owner, name: &str, instance: &str) -> rusqlite::Result<Option<Record>> {
        let sql = format!("SELECT {COLUMNS} FROM {SEEN} AND (name = :name OR id = :name) ORDER BY rowid DESC LIMIT 1");
        let asked = named_params! {
            ":tenant": owner.tenant, ":principal": owner.principal, ":instance": instance, ":name": name
        };
        self.0.with(|connection| connection.prepare_cached(&sql)?.query_row(asked, read).optional())
    }

    /// The record of that id.
    pub(super) fn get(&self, id: &SandboxId) -> rusqlite::Result<Option<Record>> {
        let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE id = :id");
        let asked = named_params! {":id": id.as_str()};
        self.0.with(|connection| connection.prepare_cached(&sql)?.query_row(asked, read).optional())
    }

    /// Waits until a sandbox that is to end has ended, whoever ends it.
    pub(super) async fn wait_for_end(&self, record: &Record) -> Result<Record, FleetError> {
        let ended = async {
            loop {
                match self.get(&record.id)? {
                    Some(now) if now.status.is_live() => tokio::time::sleep(LOOK).await,
                    now => return Ok(now.unwrap_or_else(|| record.clone())),
                }
            }
        };
        let late = |_| Err(FleetError::Elsewhere(record.name.clone()));
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(late)
    }

    /// An owner's newest record of each name that `instance` may see, oldest first.
    pub(super) fn of(&self, owner: &Owner, instance: &str) -> rusqlite::Result<Vec<Record>> {
        let newest = format!("SELECT max(rowid) FROM {SEEN} GROUP BY name");
        let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE rowid IN ({newest}) ORDER BY rowid");
        let asked = named_params! { ":tenant": owner.tenant, ":principal": owner.principal, ":instance": instance };
        self.select(&sql, asked)
    }

    /// Everyone's newest record of each name, oldest first.
    pub(super) fn all(&self) -> rusqlite::Result<Vec<Record>> {
        let newest = "SELECT max(rowid) FROM sandboxes GROUP BY tenant, principal, name";
        self.select(&format!("SELECT {COLUMNS} FROM sandboxes WHERE rowid IN ({newest}) ORDER BY rowid"), &[])
    }

    /// Every record of something that may exist.
    pub(super) fn live(&self) -> rusqlite::Result<Vec<Record>> {
        self.select(&format!("SELECT {COLUMNS} FROM sandboxes WHERE {LIVE}"), &[])
    }

    fn select(&self, sql: &str, asked: &[(&str, &dyn rusqlite::ToSql)]) -> rusqlite::Result<Vec<Record>> {
        self.0.with(|connection| connection.prepare_cached(sql)?.query_map(asked, read)?.collect())
    }
}

fn put(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let written = named_params! {
        ":id": record.id.as_str(),
        ":tenant": record.owner.tenant,
        ":principal": record.owner.principal,
        ":name": record.name,
        ":variant": record.variant,
        ":generation": i64::try_from(record.generation).unwrap_or(i64::MAX),
        ":instance": record.instance,
        ":status": record.status.as_str(),
        ":status_reason": record.status_reason,
        ":url": record.url,
        ":image": record.image,
        ":environment": record.environment,
        ":gpu": record.gpu,
        ":created_at": record.created_at.to_string(),
        ":last_activity_at": record.last_activity_at.to_string(),
        ":expires_at": record.expires_at.map(|at| at.to_string()),
        ":digest": record.digest,
        ":files": record.files,
        ":backend": record.backend,
        ":idle_seconds": record.idle_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
        ":key_id": record.key_id,
        ":wish": record.wish.as_str(),
        ":wish_reason": record.wish_reason,
        ":ephemeral": record.ephemeral,
    };
    let sql = format!("INSERT INTO sandboxes ({COLUMNS}) VALUES ({VALUES}) ON CONFLICT (id) DO UPDATE SET {UPDATE}");
    connection.prepare_cached(&sql)?.execute(written).map(drop)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        id: SandboxId::from_record(row.get(0)?),
        owner: Owner { tenant: row.get(1)?, principal: row.get(2)? },
        name: row.get(3)?,
        variant: row.get(4)?,
        generation: u64::try_from(row.get::<_, i64>(5)?).unwrap_or_default(),
        instance: row.get(6)?,
        status: Status::from_record(&row.get::<_, String>(7)?),
        status_reason: row.get(8)?,
        url: row.get(9)?,
        image: row.get(10)?,
        environment: row.get(11)?,
        gpu: row.get(12)?,
        created_at: time(&row.get::<_, String>(13)?),
        last_activity_at: time(&row.get::<_, String>(14)?),
        expires_at: row.get::<_, Option<String>>(15)?.map(|text| time(&text)),
        digest: row.get(16)?,
        files: row.get(17)?,
        backend: row.get(18)?,
        idle_seconds: row.get::<_, Option<i64>>(19)?.and_then(|seconds| seconds.try_into().ok()),
        key_id: row.get(20)?,
        wish: Status::from_record(&row.get::<_, String>(21)?),
        wish_reason: row.get(22)?,
        ephemeral: row.get(23)?,
    })
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
