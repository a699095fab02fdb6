//! The SQLite database of a data directory, in WAL mode, shared by the gateways on it. Each floor keeps
//! its own tables in it; here they are only made, and brought up to date.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tokio::runtime::RuntimeFlavor;

const FILE: &str = "cellgate.db";
/// How long a write waits for another gateway's.
const BUSY: Duration = Duration::from_secs(5);
/// Between two tries.
const WAIT: Duration = Duration::from_millis(5);
/// The steps that led to today's tables, oldest first; `user_version` counts those that were made.
const STEPS: [&str; 3] =
    [include_str!("database/1.sql"), include_str!("database/2.sql"), include_str!("database/3.sql")];

/// Why the database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file can't be opened, read or written.
    #[error("{FILE}: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file can't be made.
    #[error("{FILE}: {0}")]
    File(#[from] std::io::Error),
    /// Its tables are of a version that is not known here.
    #[error("{FILE} was made by a newer Cellgate (version {0} of its tables): use that one")]
    Newer(usize),
}

/// An open database.
pub struct Database(Mutex<Connection>);

impl Database {
    /// Opens or makes the database of `data_dir`, which is made too; both are readable by their owner only.
    ///
    /// # Errors
    /// When it can't be used, or was made by a newer version.
    pub fn open(data_dir: &Path) -> Result<Self, DatabaseError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
        let file = data_dir.join(FILE);
        std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file)?;
        let mut connection = Connection::open(file)?;
        connection.busy_handler(Some(wait))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        bring_up_to_date(&mut connection)?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Works with the connection; others wait meanwhile, so it is only for short things.
    pub fn with<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let mut connection = match self.0.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => off_the_workers(|| self.0.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        work(&mut connection)
    }
}

/// Waits for another gateway's write; whether to try again.
fn wait(tries: i32) -> bool {
    off_the_workers(|| std::thread::sleep(WAIT));
    u32::try_from(tries).is_ok_and(|tries| WAIT * tries < BUSY)
}

/// Blocks, but no thread that serves others.
fn off_the_workers<T>(block: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    if flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
        return tokio::task::block_in_place(block);
    }
    block()
}

/// Makes the steps that are missing, all or none, one gateway at a time.
fn bring_up_to_date(connection: &mut Connection) -> Result<(), DatabaseError> {
    // Nothing is written where nothing is to be done: the disk may be full.
    if connection.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0))? == STEPS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let made: usize = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if made > STEPS.len() {
        return Err(DatabaseError::Newer(made));
    }
    for step in &STEPS[made..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", STEPS.len())?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{Database, DatabaseError, STEPS};

    #[test]
    fn the_first_version_is_brought_up_to_date_with_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let old = Connection::open(folder.path().join("cellgate.db")).unwrap();
        old.execute_batch(STEPS[0]).unwrap();
        let row = "INSERT INTO sandboxes VALUES ('s-a', 't', 'p', 'n', 'process', 1, 'i', 'running', NULL, NULL, NULL, NULL, NULL, 'c', 'l', NULL, 'd', NULL)";
        old.execute_batch(row).unwrap();
        drop(old);
        for _ in 0..2 {
            let database = Database::open(folder.path()).unwrap();
            let wish: String = database
                .with(|connection| connection.query_row("SELECT wish FROM sandboxes", [], |row| row.get(0)))
                .unwrap();
            assert_eq!(wish, "running");
        }
    }

    #[test]
    fn a_newer_version_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        Connection::open(folder.path().join("cellgate.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(Database::open(folder.path()), Err(DatabaseError::Newer(99))));
    }

    #[test]
    fn gateways_that_start_at_once_make_the_tables_once() {
        let folder = tempfile::tempdir().unwrap();
        let start = || {
            let path = folder.path().to_owned();
            std::thread::spawn(move || Database::open(&path).map(drop))
        };
        let all: Vec<_> = (0..8).map(|_| start()).collect();
        for one in all {
            one.join().unwrap().unwrap();
        }
    }
}
