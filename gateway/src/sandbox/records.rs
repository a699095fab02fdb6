//! The records on disk: SQLite in WAL mode, shared by the gateways of a data directory.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::{Owner, Record, SandboxId, Status};

const FILE: &str = "cellgate.db";
/// How long a write waits for another gateway's.
const BUSY: Duration = Duration::from_secs(5);
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS sandboxes (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        principal TEXT NOT NULL,
        name TEXT NOT NULL,
        variant TEXT NOT NULL,
        generation INTEGER NOT NULL,
        instance TEXT NOT NULL,
        status TEXT NOT NULL,
        status_reason TEXT,
        url TEXT,
        image TEXT,
        environment TEXT,
        gpu TEXT,
        created_at TEXT NOT NULL,
        last_activity_at TEXT NOT NULL,
        expires_at TEXT,
        digest TEXT NOT NULL,
        files TEXT
    ) STRICT;
    -- One live sandbox of a name for each owner, whichever gateway launches it. What is attached is attached to one gateway.
    CREATE UNIQUE INDEX IF NOT EXISTS live_names
        ON sandboxes (tenant, principal, name, CASE variant WHEN 'jupyter-server' THEN instance ELSE '' END)
        WHERE status IN ('pending', 'starting', 'running', 'terminating');
    CREATE INDEX IF NOT EXISTS names ON sandboxes (tenant, principal, name);
    DELETE FROM sandboxes WHERE status IN ('terminated', 'failed', 'lost')
        AND julianday(last_activity_at) < julianday('now') - 30;
";
const PUT: &str = "
    INSERT INTO sandboxes VALUES (:id, :tenant, :principal, :name, :variant, :generation, :instance, :status,
        :status_reason, :url, :image, :environment, :gpu, :created_at, :last_activity_at, :expires_at, :digest, :files)
    ON CONFLICT (id) DO UPDATE SET generation = :generation, instance = :instance, status = :status,
        status_reason = :status_reason, url = :url, last_activity_at = :last_activity_at, expires_at = :expires_at";

/// An owner's records but those of servers that are attached to another living instance.
const SEEN: &str = "sandboxes WHERE tenant = :tenant AND principal = :principal AND NOT (variant = 'jupyter-server'
    AND instance <> :instance AND status IN ('pending', 'starting', 'running', 'terminating'))";

/// The table of records.
pub(super) struct Records(Mutex<Connection>);

impl Records {
    /// The records of `data_dir`.
    pub(super) fn open(data_dir: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(data_dir.join(FILE))?;
        connection.busy_timeout(BUSY)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self(Mutex::new(connection)))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a record, new or changed. A name that another live record of its owner has is a
    /// constraint violation.
    pub(super) fn put(&self, record: &Record) -> rusqlite::Result<()> {
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
        };
        self.connection().prepare_cached(PUT)?.execute(written).map(drop)
    }

    /// The newest record of that name or id that `instance` may see.
    pub(super) fn find(&self, owner: &Owner, name: &str, instance: &str) -> rusqlite::Result<Option<Record>> {
        let sql = format!("SELECT * FROM {SEEN} AND (name = :name OR id = :name) ORDER BY rowid DESC LIMIT 1");
        let asked = named_params! {
            ":tenant": owner.tenant, ":principal": owner.principal, ":instance": instance, ":name": name
        };
        self.connection().prepare_cached(&sql)?.query_row(asked, read).optional()
    }

    /// An owner's newest record of each name that `instance` may see, oldest first.
    pub(super) fn of(&self, owner: &Owner, instance: &str) -> rusqlite::Result<Vec<Record>> {
        let newest = format!("SELECT max(rowid) FROM {SEEN} GROUP BY name");
        let sql = format!("SELECT * FROM sandboxes WHERE rowid IN ({newest}) ORDER BY rowid");
        let asked = named_params! { ":tenant": owner.tenant, ":principal": owner.principal, ":instance": instance };
        self.connection().prepare_cached(&sql)?.query_map(asked, read)?.collect()
    }

    /// Every record of something that may exist.
    pub(super) fn live(&self) -> rusqlite::Result<Vec<Record>> {
        let sql = "SELECT * FROM sandboxes WHERE status IN ('pending', 'starting', 'running', 'terminating')";
        self.connection().prepare_cached(sql)?.query_map([], read)?.collect()
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        id: SandboxId::from_record(row.get("id")?),
        owner: Owner { tenant: row.get("tenant")?, principal: row.get("principal")? },
        name: row.get("name")?,
        variant: row.get("variant")?,
        generation: u64::try_from(row.get::<_, i64>("generation")?).unwrap_or_default(),
        instance: row.get("instance")?,
        status: Status::from_record(&row.get::<_, String>("status")?),
        status_reason: row.get("status_reason")?,
        url: row.get("url")?,
        image: row.get("image")?,
        environment: row.get("environment")?,
        gpu: row.get("gpu")?,
        created_at: time(&row.get::<_, String>("created_at")?),
        last_activity_at: time(&row.get::<_, String>("last_activity_at")?),
        expires_at: row.get::<_, Option<String>>("expires_at")?.map(|text| time(&text)),
        digest: row.get("digest")?,
        files: row.get("files")?,
    })
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, status: Status) -> Record {
        Record {
            id: SandboxId::random(),
            owner: Owner::local(),
            name: name.to_owned(),
            variant: "process".to_owned(),
            generation: 1,
            instance: "i".to_owned(),
            status,
            status_reason: None,
            url: None,
            image: None,
            environment: None,
            gpu: None,
            created_at: Timestamp::now(),
            last_activity_at: Timestamp::now(),
            expires_at: Some(Timestamp::now()),
            digest: "d".to_owned(),
            files: Some("/f".to_owned()),
        }
    }

    #[test]
    fn a_name_is_live_once() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let mut first = record("a", Status::Running);
        records.put(&first).unwrap();
        assert!(records.put(&record("a", Status::Pending)).is_err());
        first.status = Status::Terminated;
        records.put(&first).unwrap();
        records.put(&record("a", Status::Pending)).unwrap();
        assert_eq!(records.of(&Owner::local(), "i").unwrap().len(), 1);
        assert_eq!(records.live().unwrap().len(), 1);
    }

    #[test]
    fn a_server_is_attached_to_each_instance_on_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let attached = |instance: &str| Record {
            variant: "jupyter-server".to_owned(),
            instance: instance.to_owned(),
            ..record("h:1", Status::Running)
        };
        let (mine, other) = (attached("mine"), attached("other"));
        records.put(&mine).unwrap();
        records.put(&other).unwrap();
        assert!(records.put(&attached("other")).is_err());
        let seen = records.of(&Owner::local(), "mine").unwrap();
        assert_eq!(seen.iter().map(|record| &record.id).collect::<Vec<_>>(), [&mine.id]);
        assert_eq!(records.find(&Owner::local(), "h:1", "mine").unwrap().unwrap().id, mine.id);
        assert!(records.find(&Owner::local(), "h:1", "third").unwrap().is_none());
    }

    #[test]
    fn old_ends_are_forgotten_and_old_lives_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        for (name, status) in [("ended", Status::Lost), ("runs", Status::Running)] {
            records.put(&Record { last_activity_at: Timestamp::UNIX_EPOCH, ..record(name, status) }).unwrap();
        }
        records.put(&record("new", Status::Terminated)).unwrap();
        let records = Records::open(folder.path()).unwrap();
        let names: Vec<_> = records.of(&Owner::local(), "i").unwrap().into_iter().map(|record| record.name).collect();
        assert_eq!(names, ["runs", "new"]);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let written = record("a", Status::Starting);
        Records::open(folder.path()).unwrap().put(&written).unwrap();
        let records = Records::open(folder.path()).unwrap();
        let read = records.find(&Owner::local(), "a", "i").unwrap().unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&written).unwrap());
        let eve = Owner { tenant: "local".into(), principal: "eve".into() };
        assert!(records.find(&eve, "a", "i").unwrap().is_none());
    }
}
