//! The Python that environments are made with.

use std::path::{Path, PathBuf};

use tokio::process::Command;

/// The oldest version that the lock file is made for.
const OLDEST: (u32, u32) = (3, 10);
const NAMES: [&str; 6] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];
/// Version, and the interpreter itself where `program` is that of a virtual environment.
const ASK: &str =
    "import sys; print('%d.%d' % sys.version_info[:2]); print(getattr(sys, '_base_executable', sys.executable))";

/// A Python interpreter.
#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    /// The interpreter, not a virtual environment's link to it.
    pub(super) program: PathBuf,
    /// Such as `3.12`.
    pub(super) version: String,
}

/// The configured interpreter, else the first one on the PATH that is new enough.
pub(super) async fn find(configured: Option<&Path>) -> Result<Interpreter, String> {
    if let Some(program) = configured {
        let found = ask(program).await;
        return found
            .ok_or_else(|| format!("{} is not a Python 3.10 or newer: set --python to one", program.display()));
    }
    for name in NAMES {
        if let Some(found) = ask(Path::new(name)).await {
            return Ok(found);
        }
    }
    Err("no Python 3.10 or newer is on the PATH: install one (Debian: apt-get install python3 python3-venv), or set --python".to_owned())
}

async fn ask(program: &Path) -> Option<Interpreter> {
    let output = Command::new(program).args(["-I", "-c", ASK]).output().await.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (version, program) = text.trim_end().split_once('\n')?;
    let (major, minor) = version.split_once('.')?;
    let new_enough = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?) >= OLDEST;
    new_enough.then(|| Interpreter { program: PathBuf::from(program.trim()), version: version.to_owned() })
}
