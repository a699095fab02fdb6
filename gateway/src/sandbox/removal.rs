//! Removing a folder that code in a sandbox filled: as deep as it likes, with folders that may not be written.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes a folder with everything in it; that it isn't there is fine. Links are removed, not followed. Blocks.
///
/// What lies deeper is moved up first: so there is no recursion, no path gets too long, and few files are open.
pub(super) fn remove_all(folder: &Path) -> io::Result<()> {
    let (mut number, moved) = (0_u64, uuid::Uuid::new_v4());
    loop {
        let mut is_empty = true;
        for entry in match entries(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        } {
            let entry = entry?;
            is_empty = false;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            for below in entries(&entry.path())? {
                let below = below?;
                if below.file_type()?.is_dir() {
                    // To be moved it has to be writable as well: its `..` changes.
                    make_writable(&below.path())?;
                    number += 1;
                    fs::rename(below.path(), folder.join(format!("{moved}-{number}")))?;
                } else {
                    fs::remove_file(below.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if is_empty {
            return fs::remove_dir(folder);
        }
    }
}

/// The same, off the runtime's threads.
pub(super) async fn remove(folder: &Path) -> io::Result<()> {
    let folder = folder.to_owned();
    let removed = tokio::task::spawn_blocking(move || remove_all(&folder)).await;
    removed.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn entries(folder: &Path) -> io::Result<fs::ReadDir> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        _ => {
            make_writable(folder)?;
            fs::read_dir(folder)
        }
    }
}

fn make_writable(folder: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(folder)?.permissions().mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_deep_folder_with_read_only_ones_and_links_goes_and_what_links_lead_to_stays() {
        let home = tempfile::tempdir().unwrap();
        let (folder, kept) = (home.path().join("f"), home.path().join("kept"));
        fs::create_dir_all(folder.join("a/b/c")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("x"), "x").unwrap();
        fs::write(folder.join("a/b/c/file"), "x").unwrap();
        symlink(&kept, folder.join("a/link")).unwrap();
        for path in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(folder.join(path), fs::Permissions::from_mode(0o500)).unwrap();
        }
        // Deeper than any path can tell, made from the bottom up.
        let mut deep = home.path().join("deep-0");
        fs::create_dir(&deep).unwrap();
        for level in 1..6000 {
            let above = home.path().join(format!("deep-{level}"));
            fs::create_dir(&above).unwrap();
            fs::rename(&deep, above.join("d")).unwrap();
            deep = above;
        }
        fs::rename(&deep, folder.join("deep")).unwrap();
        remove_all(&folder).unwrap();
        assert!(!folder.exists() && kept.join("x").exists());
        remove_all(&folder).unwrap();
    }
}
