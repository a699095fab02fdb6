//! The Python that some tests need: the `mcp` client and nbformat, in an environment that `tests/run` keeps.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The Python of the tests' environment; made when it is not there yet.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(path) = std::env::var_os("CELLGATE_TEST_PYTHON") {
            return PathBuf::from(path);
        }
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
        let output = Command::new("python3").arg(run).arg("--python").output().expect("python3 starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

/// Runs a script and gives what it printed, and how it ended.
pub(crate) fn run_python<A: AsRef<OsStr>>(script: &Path, arguments: impl IntoIterator<Item = A>) -> Output {
    Command::new(python()).arg(script).args(arguments).output().expect("python starts")
}

/// Fails unless nbformat finds the notebook valid.
pub(crate) fn validate_notebook(path: &Path) {
    let code = "import sys, json, nbformat\nnb = json.load(open(sys.argv[1], encoding='utf-8'))\nnbformat.validate(nb)";
    let output = Command::new(python()).args(["-c", code]).arg(path).output().expect("python starts");
    assert!(output.status.success(), "{} is not valid: {}", path.display(), String::from_utf8_lossy(&output.stderr));
}
