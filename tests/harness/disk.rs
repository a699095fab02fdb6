//! A disk that a test can fill.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system, unmounted with this value.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of that many kilobytes; why it can't be, if not.
    pub(crate) fn mount(at: &Path, kilobytes: u32) -> Result<Self, String> {
        let size = format!("size={kilobytes}k,mode=700");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "cellgate-test"]).arg(at).output();
        match output {
            Ok(output) if output.status.success() => Ok(Self(at.to_owned())),
            Ok(output) => {
                Err(format!("a file system can't be mounted here: {}", String::from_utf8_lossy(&output.stderr).trim()))
            }
            Err(error) => Err(format!("there is no mount command: {error}")),
        }
    }

    /// Writes until nothing more fits.
    pub(crate) fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).expect("a file");
        for size in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Makes room again.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.filler()).expect("it can be removed");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
