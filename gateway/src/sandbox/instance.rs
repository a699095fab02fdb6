//! Gateways that share a data directory. Each holds a lock file of its own for as long as it
//! lives; whose lock is free is dead, and only what belonged to it may be cleared away.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Begins the name of a lock file that its instance doesn't hold yet.
const DRAFT: char = '.';

/// This process's place among the instances.
pub(super) struct Instance {
    id: String,
    folder: PathBuf,
    /// Held, not used: the lock goes with the process, however it ends.
    lock: Mutex<File>,
}

impl Instance {
    /// Takes a new place.
    pub(super) fn enter(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join("instances");
        let id = uuid::Uuid::new_v4().to_string();
        let lock = Mutex::new(locked(&folder, &id)?);
        Ok(Self { id, folder, lock })
    }

    /// Takes its place again if somebody removed its file: siblings would believe that it is dead.
    pub(super) fn hold(&self) -> io::Result<()> {
        if self.folder.join(&self.id).exists() {
            return Ok(());
        }
        tracing::warn!("the lock file of this gateway was removed; it is made again");
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = locked(&self.folder, &self.id)?;
        Ok(())
    }

    /// The id that this instance's records and processes carry.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether another instance is alive.
    pub(super) fn is_alive(&self, id: &str) -> bool {
        if id == self.id {
            return true;
        }
        let Ok(lock) = File::open(self.folder.join(id)) else { return false };
        matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Forgets an instance that is dead and of which nothing is left.
    pub(super) fn forget(&self, id: &str) {
        if !self.is_alive(id) {
            // Gone already is as good.
            let _ = std::fs::remove_file(self.folder.join(id));
        }
    }

    /// The ids of the instances that ended without leaving.
    pub(super) fn dead(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        ids.filter(|id| !id.starts_with(DRAFT) && !self.is_alive(id)).collect()
    }
}

/// A new lock file of that name.
fn locked(folder: &Path, id: &str) -> io::Result<File> {
    let in_folder = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(in_folder)?;
    // Locked before it gets its name: no sibling ever sees it free while its instance lives.
    let draft = folder.join(format!("{DRAFT}{id}"));
    let lock = OpenOptions::new().create(true).truncate(true).write(true).open(&draft).map_err(in_folder)?;
    lock.lock()?;
    std::fs::rename(&draft, folder.join(id))?;
    Ok(lock)
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.folder.join(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::Instance;

    #[test]
    fn a_sibling_is_alive_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let one = Instance::enter(folder.path()).unwrap();
        let other = Instance::enter(folder.path()).unwrap();
        let id = other.id().to_owned();
        assert!(one.is_alive(&id) && one.dead().is_empty());
        drop(other);
        assert!(!one.is_alive(&id));
        std::fs::write(folder.path().join("instances/crashed"), "").unwrap();
        assert_eq!(one.dead(), ["crashed"]);
        one.forget("crashed");
        assert!(one.dead().is_empty());
    }

    #[test]
    fn one_whose_file_was_removed_takes_its_place_again() {
        let folder = tempfile::tempdir().unwrap();
        let one = Instance::enter(folder.path()).unwrap();
        let other = Instance::enter(folder.path()).unwrap();
        std::fs::remove_dir_all(folder.path().join("instances")).unwrap();
        assert!(!other.is_alive(one.id()));
        one.hold().unwrap();
        assert!(other.is_alive(one.id()));
    }
}
