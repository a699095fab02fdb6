//! A sandbox's own directory: a small virtual environment over the shared one, its kernelspec,
//! home and runtime files. It goes when the sandbox ends; the workspace beside it stays.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::environment::Environment;
use crate::sandbox::SandboxId;

/// How Jupyter runs in every sandbox, in images as well.
const START: &str = include_str!("../../../../sandbox-images/python/start_jupyter.py");
const KERNEL: &str = include_str!("../../../../sandbox-images/python/start_kernel.py");
const CONFIG: &str = include_str!("../../../../sandbox-images/python/jupyter_server_config.py");
/// Ends the sandbox when no gateway does it.
const SWITCH: &str = include_str!("../../../../sandbox-images/python/dead_mans_switch.py");

/// The directory of one sandbox.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new(folder: &Path, id: &SandboxId) -> Self {
        Self(folder.join(id.as_str()))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A file or folder in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes it, and the workspace when that isn't there from an earlier life.
    pub(super) fn make(&self, environment: &Environment, workspace: &Path) -> io::Result<()> {
        private(workspace)?;
        // What code did to the folder in an earlier life must not keep the next one out.
        fs::set_permissions(workspace, fs::Permissions::from_mode(0o700))?;
        for folder in ["home", "runtime", "ipython", "matplotlib", "venv/bin", "share/jupyter/kernels/python3"] {
            private(&self.join(folder))?;
        }
        fs::write(self.join("start_jupyter.py"), START)?;
        fs::write(self.join("start_kernel.py"), KERNEL)?;
        fs::write(self.join("jupyter_server_config.py"), CONFIG)?;
        fs::write(self.join("dead_mans_switch.py"), SWITCH)?;
        self.make_environment(environment)?;
        self.make_kernelspec()?;
        self.copy_fonts(environment)
    }

    /// What `python -m venv` makes, without running Python. The `.pth` file brings the shared packages
    /// in behind the sandbox's own, so `%pip install` writes here and changes nothing for others.
    fn make_environment(&self, environment: &Environment) -> io::Result<()> {
        let (interpreter, version) = (&environment.interpreter.program, &environment.interpreter.version);
        let bin = self.join("venv/bin");
        let names = ["python".to_owned(), "python3".to_owned(), format!("python{version}")];
        for name in names {
            symlink(interpreter, bin.join(name))?;
        }
        let home = interpreter.parent().unwrap_or(Path::new("/usr/bin")).display();
        let configuration = format!("home = {home}\ninclude-system-site-packages = false\nversion = {version}\n");
        fs::write(self.join("venv/pyvenv.cfg"), configuration)?;
        let packages = self.join("venv").join("lib").join(format!("python{version}")).join("site-packages");
        private(&packages)?;
        let shared = json!(environment.site_packages().to_string_lossy());
        fs::write(packages.join("shared.pth"), format!("import site; site.addsitedir({shared})\n"))?;
        let pip = bin.join("pip");
        fs::write(&pip, "#!/bin/sh\nexec \"$(dirname \"$0\")/python\" -m pip \"$@\"\n")?;
        fs::set_permissions(&pip, fs::Permissions::from_mode(0o755))?;
        symlink("pip", bin.join("pip3"))
    }

    fn make_kernelspec(&self) -> io::Result<()> {
        let (python, start) = (self.join("venv/bin/python"), self.join("start_kernel.py"));
        let spec = json!({
            "argv": [python, start, "-f", "{connection_file}"],
            "display_name": "Python 3",
            "language": "python",
            "metadata": {"debugger": true},
        });
        fs::write(self.join("share/jupyter/kernels/python3/kernel.json"), spec.to_string())
    }

    fn copy_fonts(&self, environment: &Environment) -> io::Result<()> {
        for entry in fs::read_dir(environment.font_cache()).into_iter().flatten() {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), self.join("matplotlib").join(entry.file_name()))?;
            }
        }
        Ok(())
    }
}

/// A folder that only its owner can look into.
fn private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
