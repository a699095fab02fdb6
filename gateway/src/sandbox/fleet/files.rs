//! The files of sandboxes, which outlive them: where they are, and how they are deleted in the end.

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};

use super::super::records::Records;
use super::super::removal::{self, remove_all};
use super::super::{FleetError, Owner, Record, SandboxId};
use super::Fleet;

const LONGEST_NAME: usize = 100;
/// Begins the name of a folder whose files are being deleted.
const PRUNED: &str = ".pruned-";
/// Between two looks at what the operator's retention ends.
const LOOK: Duration = Duration::from_secs(3600);

/// The files of a name, which no sandbox uses.
#[derive(Clone, Debug)]
pub struct KeptFiles {
    /// Whose they are.
    pub owner: Owner,
    /// The sandbox's name, which brings them back.
    pub name: String,
    /// Where they are.
    pub path: PathBuf,
    /// How large they are.
    pub bytes: u64,
    /// When they were last changed, or their sandbox last used.
    pub used_at: Timestamp,
}

impl KeptFiles {
    /// Whether they were not used for that long. A time in the future is no use long ago, whatever the clock did.
    pub fn is_older_than(&self, limit: Duration) -> bool {
        SignedDuration::try_from(limit).is_ok_and(|limit| Timestamp::now().duration_since(self.used_at) >= limit)
    }
}

/// The files that are kept in a data directory and that no sandbox uses, by owner and name.
///
/// # Errors
/// When they or the records can't be read.
pub fn kept_files(data_dir: &Path, records: &Records) -> Result<Vec<KeptFiles>, FleetError> {
    let known = records.all()?;
    let mut kept = Vec::new();
    for folder in folders(&data_dir.join("workspaces"))? {
        let Some(owner) = name_of(&folder).and_then(Owner::from_folder) else { continue };
        for path in folders(&folder)? {
            let Some(name) = name_of(&path).filter(|name| check_name(name).is_ok()).map(str::to_owned) else {
                continue;
            };
            let record = known.iter().find(|record| record.owner == owner && record.name == name);
            if record.is_some_and(|record| record.status.is_live()) {
                continue;
            }
            let (bytes, changed_at) = size(&path);
            let used_at = record.map_or(changed_at, |record| changed_at.max(record.last_activity_at));
            kept.push(KeptFiles { owner: owner.clone(), name, path, bytes, used_at });
        }
    }
    kept.sort_by(|one, other| (&one.owner, &one.name).cmp(&(&other.owner, &other.name)));
    Ok(kept)
}

/// Deletes the files of a name, unless a sandbox uses them by now; whether they were.
///
/// # Errors
/// When they can't be deleted.
pub fn prune(files: &KeptFiles, records: &Records) -> Result<bool, FleetError> {
    let folder = files.path.parent().unwrap_or(&files.path);
    let gone = folder.join(format!("{PRUNED}{}", uuid::Uuid::new_v4()));
    // Moved away while no sandbox of the name can be launched, so a launch finds all of its files or none.
    if !records.unless_live(&files.owner, &files.name, || std::fs::rename(&files.path, &gone))? {
        return Ok(false);
    }
    remove_all(&gone)?;
    Ok(true)
}

/// Deletes what was not used for as long as the operator keeps it.
pub(super) async fn keep_retention(fleet: Weak<Fleet>) {
    loop {
        {
            let Some(fleet) = fleet.upgrade() else { return };
            let Some(retention) = fleet.config.retention else { return };
            fleet.wait_until_settled().await;
            let pruned = tokio::task::spawn_blocking(move || fleet.prune_older_than(retention)).await;
            if let Ok(Err(error)) = pruned {
                tracing::error!(%error, "old files can't be deleted");
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Fleet {
    /// Where the files of a name are, in this life of its sandbox and the next.
    pub(super) fn workspace(&self, owner: &Owner, name: &str) -> PathBuf {
        self.config.data_dir.join("workspaces").join(owner.folder()).join(name)
    }

    fn prune_older_than(&self, retention: Duration) -> Result<(), FleetError> {
        for leftover in folders(&self.config.data_dir.join("workspaces"))?.iter().flat_map(|folder| pruned(folder)) {
            if let Err(error) = remove_all(&leftover) {
                tracing::error!(path = %leftover.display(), %error, "what a deletion left can't be deleted");
            }
        }
        for files in
            kept_files(&self.config.data_dir, &self.records)?.iter().filter(|files| files.is_older_than(retention))
        {
            let path = files.path.display();
            match prune(files, &self.records) {
                Ok(true) => tracing::info!(%path, "deleted files that nobody used for as long as they are kept"),
                Ok(false) => {}
                Err(error) => tracing::error!(%path, %error, "old files can't be deleted"),
            }
        }
        Ok(())
    }
}

/// Deletes the files of a sandbox that ended, where they are not to outlive it.
pub(in super::super) async fn delete_if_ephemeral(ended: &mut Record) {
    let Some(files) = ended.files.clone().filter(|_| ended.ephemeral) else { return };
    match removal::remove(Path::new(&files)).await {
        Ok(()) => ended.files = None,
        Err(error) => {
            tracing::error!(sandbox = %ended.id, %error, "the files of a sandbox that ended can't be deleted");
        }
    }
}

/// What a deletion that was interrupted left.
fn pruned(folder: &Path) -> Vec<PathBuf> {
    let is_pruned = |path: &PathBuf| name_of(path).is_some_and(|name| name.starts_with(PRUNED));
    folders(folder).unwrap_or_default().into_iter().filter(is_pruned).collect()
}

/// Whether files of an earlier sandbox are there.
pub(super) fn has_files(workspace: &Path) -> bool {
    std::fs::read_dir(workspace).is_ok_and(|mut entries| entries.next().is_some())
}

/// A name is a folder's name as well, and `host:port` for an attached server.
pub(super) fn check_name(name: &str) -> Result<(), FleetError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    // A name that is another's id would stand for two sandboxes.
    if starts_well && name.len() <= LONGEST_NAME && name.bytes().all(plain) && !SandboxId::is_like(name) {
        return Ok(());
    }
    Err(FleetError::BadName(name.chars().take(LONGEST_NAME).collect()))
}

fn folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
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

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_never_leaves_its_folder() {
        for name in ["main", "a.b-c_d", "127.0.0.1:8888", "[::1]:8888"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "s-abcdefg2", ".", "..", "../x", "a/b", "a\\b", "-x", "a\0", "ä", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
