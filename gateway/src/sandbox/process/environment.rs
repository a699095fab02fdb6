//! The Python environment that all sandboxes share, read-only: built once for each lock file and
//! interpreter, in the background.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::watch;

use super::interpreter::{self, Interpreter};
use super::marks;
use crate::sandbox::{FleetConfig, Progress, ProviderError};

/// Exactly what is installed; the images install the same.
const LOCK: &str = include_str!("../../../../sandbox-images/python/requirements.txt");
/// Written last: an environment without it was left half-made.
const COMPLETE: &str = "complete";
/// The lines of pip's that an error shows.
const LAST_LINES: usize = 8;
const BAR: usize = 20;

/// A built environment.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    /// Where it is.
    pub(super) folder: PathBuf,
    /// What it was made with.
    pub(super) interpreter: Interpreter,
}

impl Environment {
    /// Its own Python, which runs Jupyter.
    pub(super) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Whether it was built to its end, and its interpreter is still there.
    fn is_complete(&self) -> bool {
        self.folder.join(COMPLETE).exists() && self.python().exists()
    }

    /// Where its packages are.
    pub(super) fn site_packages(&self) -> PathBuf {
        self.folder.join("lib").join(format!("python{}", self.interpreter.version)).join("site-packages")
    }

    /// Matplotlib's font cache, made with the environment since it takes seconds.
    pub(super) fn font_cache(&self) -> PathBuf {
        self.folder.join("matplotlib")
    }
}

#[derive(Clone)]
enum Stage {
    Idle,
    Building(String),
    Ready(Arc<Environment>),
    Failed(String),
}

/// Builds the environment when it is first asked for, once, however many ask.
#[derive(Clone)]
pub(super) struct Builder {
    cache_dir: PathBuf,
    python: Option<PathBuf>,
    instance: String,
    stage: watch::Sender<Stage>,
}

impl Builder {
    /// The builder of a gateway instance, whose mark the build carries.
    pub(super) fn new(config: &FleetConfig, instance: &str) -> Self {
        Self {
            cache_dir: config.cache_dir.clone(),
            python: config.python.clone(),
            instance: instance.to_owned(),
            stage: watch::Sender::new(Stage::Idle),
        }
    }

    /// Whether the environment is there, or why not yet.
    pub(super) fn ready(&self) -> Result<(), String> {
        match &*self.stage.borrow() {
            Stage::Ready(_) => Ok(()),
            Stage::Idle => Err("the Python environment is not there yet".to_owned()),
            Stage::Building(news) => Err(news.clone()),
            Stage::Failed(reason) => Err(reason.clone()),
        }
    }

    /// Whether the environment of that interpreter was built before.
    pub(super) fn is_built(&self, python: &Interpreter) -> bool {
        let environment = Environment { folder: self.folder(python), interpreter: python.clone() };
        environment.is_complete()
    }

    /// The environment, waiting for it to be built if need be. After a failure the next call tries again.
    pub(super) async fn environment(&self, progress: &Progress) -> Result<Arc<Environment>, ProviderError> {
        let mut stage = self.stage.subscribe();
        self.start_unless_started();
        loop {
            let now = stage.borrow_and_update().clone();
            match now {
                Stage::Ready(environment) => return Ok(environment),
                Stage::Failed(reason) => return Err(ProviderError::Unavailable(reason)),
                Stage::Building(news) => progress.say(news),
                Stage::Idle => {}
            }
            if stage.changed().await.is_err() {
                return Err(ProviderError::Unavailable("the gateway is stopping".to_owned()));
            }
        }
    }

    fn start_unless_started(&self) {
        let starts = self.stage.send_if_modified(|stage| {
            let starts = matches!(stage, Stage::Idle | Stage::Failed(_));
            if starts {
                *stage = Stage::Building("looking for the Python environment".to_owned());
            }
            starts
        });
        if starts {
            let builder = self.clone();
            tokio::spawn(async move {
                let stage = match builder.find_or_build().await {
                    Ok(environment) => Stage::Ready(Arc::new(environment)),
                    Err(reason) => Stage::Failed(reason),
                };
                builder.stage.send_replace(stage);
            });
        }
    }

    fn folder(&self, python: &Interpreter) -> PathBuf {
        let mut hash = Sha256::new();
        for part in [LOCK, &python.version, &python.program.to_string_lossy()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        self.cache_dir.join("python").join(hex::encode(&hash.finalize()[..8]))
    }

    async fn find_or_build(&self) -> Result<Environment, String> {
        let interpreter = interpreter::find(self.python.as_deref()).await?;
        let folder = self.folder(&interpreter);
        let environment = Environment { folder, interpreter };
        if environment.is_complete() {
            return Ok(environment);
        }
        // Another gateway may be building the same one: whoever comes second finds it complete.
        let lock = self.lock(&environment.folder).await?;
        if environment.is_complete() {
            return Ok(environment);
        }
        tracing::info!(folder = %environment.folder.display(), "building the Python environment");
        self.build(&environment, &lock).await?;
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[2K");
        }
        tracing::info!("the Python environment is built");
        Ok(environment)
    }

    async fn lock(&self, folder: &Path) -> Result<File, String> {
        let builder = self.clone();
        let file = folder.with_extension("lock");
        let locked = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
            let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file)?;
            if lock.try_lock().is_err() {
                builder.news("waiting for another gateway to build the Python environment".to_owned());
                lock.lock()?;
            }
            Ok::<_, std::io::Error>(lock)
        });
        let locked = locked.await.map_err(|error| error.to_string())?;
        locked.map_err(|error| format!("the cache directory {} can't be used: {error}", self.cache_dir.display()))
    }

    async fn build(&self, environment: &Environment, lock: &File) -> Result<(), String> {
        let folder = &environment.folder;
        self.news(bar(0));
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .map_err(|error| format!("{} can't be removed: {error}", folder.display()))?;
        }
        let mut venv = Command::new(&environment.interpreter.program);
        venv.arg("-m").arg("venv").arg(folder);
        self.step((venv, "python -m venv"), lock)
            .await
            .map_err(|error| format!("{error} (Debian: apt-get install python3-venv)"))?;
        let requirements = folder.join("requirements.txt");
        write(&requirements, LOCK)?;
        let mut pip = Command::new(environment.python());
        pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]);
        pip.args(["--require-hashes", "--only-binary", ":all:", "-r"]).arg(&requirements);
        self.step((pip, "pip install"), lock).await?;
        let mut fonts = Command::new(environment.python());
        fonts.args(["-c", "import matplotlib.font_manager"]).env("MPLCONFIGDIR", environment.font_cache());
        self.step((fonts, "making matplotlib's font cache"), lock).await?;
        write(&folder.join(COMPLETE), "")
    }

    /// Runs one command to its end, telling how many packages pip has come to.
    async fn step(&self, (mut command, what): (Command, &str), lock: &File) -> Result<(), String> {
        // As its stdin, the lock is held for as long as the command runs, even when this gateway is killed.
        let held = lock.try_clone().map_err(|error| error.to_string())?;
        command.stdin(held).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.env(marks::SANDBOX, format!("build-{}", self.instance)).env(marks::INSTANCE, &self.instance);
        let mut child = command.spawn().map_err(|error| format!("{what} can't be run: {error}"))?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(format!("{what} can't be read"));
        };
        let (mut output, mut errors) = (BufReader::new(output).lines(), BufReader::new(errors).lines());
        let (mut last, mut packages) = (Vec::new(), 0);
        loop {
            let line = tokio::select! {
                Ok(Some(line)) = output.next_line() => line,
                Ok(Some(line)) = errors.next_line() => line,
                else => break,
            };
            if line.starts_with("Collecting ") {
                packages += 1;
                self.news(bar(packages));
            } else if line.starts_with("Installing collected packages") {
                self.news("building the Python environment, once: installing".to_owned());
            }
            if !line.starts_with("Ignoring ") {
                last.push(line);
            }
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        let shown = last[last.len().saturating_sub(LAST_LINES)..].join("\n");
        Err(format!("the Python environment could not be built, {what} failed:\n{shown}"))
    }

    fn news(&self, news: String) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[2K{news}");
        }
        self.stage.send_replace(Stage::Building(news));
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{} can't be written: {error}", file.display()))
}

/// A progress bar over the lock file's packages, of which a machine needs most.
fn bar(done: usize) -> String {
    let names = LOCK.lines().filter_map(|line| line.split_once("==")).map(|(name, _)| name);
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    let total = names.len().max(1);
    let filled = (done * BAR / total).min(BAR);
    format!(
        "building the Python environment, once: [{}{}] {done} of at most {total} packages",
        "#".repeat(filled),
        "-".repeat(BAR - filled)
    )
}

#[cfg(test)]
mod tests {
    use super::{LOCK, bar};

    #[test]
    fn the_lock_names_no_registry_and_hashes_everything() {
        assert!(!LOCK.contains("://"), "the lock names an address");
        let pinned = LOCK.lines().filter(|line| line.contains("==") && !line.starts_with(' ')).count();
        let hashed = LOCK.lines().filter(|line| line.contains("==") && line.ends_with('\\')).count();
        assert!(pinned > 20 && pinned == hashed);
    }

    #[test]
    fn the_bar_fills() {
        assert!(bar(0).contains("[----"), "{}", bar(0));
        assert!(bar(10_000).contains(&"#".repeat(20)));
    }
}
