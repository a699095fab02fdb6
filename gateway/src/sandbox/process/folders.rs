//! The files of process sandboxes: folders below the data directory, `workspaces/<owner>/<name>`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::sandbox::removal::remove_all;
use crate::sandbox::store::{Rest, StoredFiles, WorkspaceStore};
use crate::sandbox::{Owner, SandboxId, check_name};

/// Begins the name of a folder whose files are being deleted.
const PRUNED: &str = ".pruned-";

/// The folders of a data directory.
#[derive(Clone)]
pub(super) struct Folders(PathBuf);

impl Folders {
    pub(super) fn new(data_dir: &Path) -> Self {
        Self(data_dir.join("workspaces"))
    }

    /// The folder of a name.
    pub(super) fn path(&self, owner: &Owner, name: &str) -> PathBuf {
        self.0.join(owner.folder()).join(name)
    }

    fn stored(&self) -> io::Result<Vec<StoredFiles>> {
        let mut stored = Vec::new();
        for folder in folders(&self.0)? {
            let Some(owner) = name_of(&folder).and_then(Owner::from_folder) else { continue };
            for path in folders(&folder)? {
                let Some(name) = name_of(&path).filter(|name| check_name(name).is_ok()).map(str::to_owned) else {
                    continue;
                };
                let (bytes, changed_at) = size(&path);
                let place = path.to_string_lossy().into_owned();
                stored.push(StoredFiles { owner: owner.clone(), name, place, bytes: Some(bytes), changed_at });
            }
        }
        Ok(stored)
    }

    fn leftovers(&self) -> io::Result<Vec<PathBuf>> {
        let is_pruned = |path: &PathBuf| name_of(path).is_some_and(|name| name.starts_with(PRUNED));
        Ok(folders(&self.0)?.iter().flat_map(|folder| folders(folder).unwrap_or_default()).filter(is_pruned).collect())
    }
}

impl WorkspaceStore for Folders {
    fn place(&self, owner: &Owner, name: &str) -> String {
        self.path(owner, name).to_string_lossy().into_owned()
    }

    fn has<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        let path = self.path(owner, name);
        Box::pin(async move { Ok(std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())) })
    }

    fn is_unused<'a>(&'a self, owner: &'a Owner, name: &'a str, _: &'a SandboxId) -> BoxFuture<'a, io::Result<bool>> {
        let path = self.path(owner, name);
        Box::pin(async move { Ok(std::fs::read_dir(path)?.next().is_none()) })
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<StoredFiles>>> {
        let folders = self.clone();
        Box::pin(async { blocking(move || folders.stored()).await })
    }

    fn take_away<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<Rest>> {
        let path = self.path(owner, name);
        Box::pin(async move {
            let gone = path.with_file_name(format!("{PRUNED}{}", uuid::Uuid::new_v4()));
            match std::fs::rename(&path, &gone) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing_left()),
                renamed => renamed?,
            }
            let rest: Rest = Box::pin(blocking(move || remove_all(&gone)));
            Ok(rest)
        })
    }

    fn clear_up(&self) -> BoxFuture<'_, io::Result<()>> {
        let folders = self.clone();
        Box::pin(blocking(move || folders.leftovers()?.iter().try_for_each(|leftover| remove_all(leftover))))
    }
}

fn nothing_left() -> Rest {
    Box::pin(async { Ok(()) })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// The bytes below a folder, and when something in it was last changed, as far as it can be read. Links are not followed.
fn size(folder: &Path) -> (u64, Timestamp) {
    let changed = |metadata: &std::fs::Metadata| {
        Timestamp::try_from(metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)).unwrap_or_default()
    };
    let (mut bytes, mut changed_at) =
        (0, std::fs::metadata(folder).map_or(Timestamp::UNIX_EPOCH, |folder| changed(&folder)));
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        // What vanished meanwhile, or lies deeper than a path can tell, doesn't count.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            changed_at = changed_at.max(changed(&metadata));
            if metadata.is_dir() {
                left.push(entry.path());
            } else {
                bytes += metadata.len();
            }
        }
    }
    (bytes, changed_at)
}
