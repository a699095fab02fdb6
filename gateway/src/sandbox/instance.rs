//! Gateways that share a data directory. Each holds a lock file of its own for as long as it
//! lives; whose lock is free is dead, and only what belonged to it may be taken over or cleared away.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Begins the name of a lock file that its instance doesn't hold yet.
const DRAFT: char = '.';
const FOLDER: &str = "instances";

/// This process's place among the instances.
pub(super) struct Instance {
    id: String,
    folder: PathBuf,
    /// Held, not used: the lock goes with the process, however it ends.
    lock: Mutex<File>,
    has_heirs: AtomicBool,
}

/// What can be told of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It holds its lock, or nothing can be told for certain.
    Alive,
    /// Its lock is free.
    Dead,
    /// It has no lock file: it left, or somebody removed it.
    Missing,
}

/// The state of an instance of `folder`.
fn state(folder: &Path, id: &str) -> State {
    let lock = match File::open(folder.join(id)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return State::Missing,
        // Too many open files, no permission: that proves nothing.
        Err(_) => return State::Alive,
        Ok(lock) => lock,
    };
    match lock.try_lock() {
        Ok(()) => State::Dead,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => State::Alive,
    }
}

/// What can be told of an instance of a data directory, by one who is none.
pub(super) fn state_in(data_dir: &Path, id: &str) -> State {
    state(&data_dir.join(FOLDER), id)
}

impl Instance {
    /// Takes a new place.
    pub(super) fn enter(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        let id = uuid::Uuid::new_v4().to_string();
        let lock = Mutex::new(locked(&folder, &id)?);
        Ok(Self { id, folder, lock, has_heirs: AtomicBool::new(false) })
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

    /// What can be told of an instance: only a lock file that is there and free proves that it is dead.
    pub(super) fn state(&self, id: &str) -> State {
        if id == self.id { State::Alive } else { state(&self.folder, id) }
    }

    /// Whether another instance is alive, or may be.
    pub(super) fn is_alive(&self, id: &str) -> bool {
        self.state(id) == State::Alive
    }

    /// Leaves its lock file to whoever goes on with what it looked after.
    pub(super) fn leave_to_heirs(&self) {
        self.has_heirs.store(true, Ordering::Relaxed);
    }

    /// Forgets an instance that is dead and of which nothing is left.
    pub(super) fn forget(&self, id: &str) {
        if self.state(id) == State::Dead {
            // Gone already is as good.
            let _ = std::fs::remove_file(self.folder.join(id));
        }
    }

    /// The ids of the instances that are dead and left something.
    pub(super) fn dead(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        ids.filter(|id| !id.starts_with(DRAFT) && self.state(id) == State::Dead).collect()
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
        if *self.has_heirs.get_mut() {
            return;
        }
        let _ = std::fs::remove_file(self.folder.join(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::{Instance, State};

    #[test]
    fn a_sibling_is_alive_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let one = Instance::enter(folder.path()).unwrap();
        let other = Instance::enter(folder.path()).unwrap();
        let id = other.id().to_owned();
        assert!(one.is_alive(&id) && one.dead().is_empty());
        drop(other);
        assert_eq!(one.state(&id), State::Missing);
        let heir = Instance::enter(folder.path()).unwrap();
        let left = heir.id().to_owned();
        heir.leave_to_heirs();
        drop(heir);
        assert_eq!((one.state(&left), one.dead()), (State::Dead, vec![left.clone()]));
        one.forget(&left);
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
        assert_eq!(other.state(one.id()), State::Missing);
        one.hold().unwrap();
        assert!(other.is_alive(one.id()));
    }
}
