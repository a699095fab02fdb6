//! The Python environment of the Python server: made once for each lock file, outside the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

const LOCK: &str = include_str!("../requirements.txt");

/// The environment's Python; made when it is not there yet.
pub(crate) async fn python() -> anyhow::Result<PathBuf> {
    tokio::task::spawn_blocking(find_or_build).await?
}

fn find_or_build() -> anyhow::Result<PathBuf> {
    let version = Command::new("python3").arg("--version").output().context("python3 is needed")?.stdout;
    let digest = Sha256::new().chain_update(LOCK).chain_update(version).finalize();
    let name = digest.iter().take(8).fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
    let folder = cache_dir()?.join(name);
    let python = folder.join("bin/python");
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(python);
    }
    eprintln!("making the Python server's environment in {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/requirements.txt");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"];
    run(Command::new(&python).args(pip).arg(lock))?;
    fs::write(complete, "")?;
    Ok(python)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{} failed ({status})", command.get_program().display());
    Ok(())
}

fn cache_dir() -> anyhow::Result<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let folder = set.or_else(home).context("there is no home directory")?.join("cellgate/benches");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
