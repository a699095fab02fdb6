//! The audit trail: one JSON line for each launch, attachment, use, execution and end. It never holds code,
//! outputs or secrets.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// A sandbox was launched, or answered since it ran.
    Launch,
    /// A server that runs already was attached.
    Attach,
    /// A sandbox was made the active one, or a notebook opened in it.
    Use,
    /// Code was run.
    Execute,
    /// A sandbox ended.
    End,
}

/// One event. Fields that don't apply are left out.
#[derive(Clone, Debug, Serialize)]
pub struct Event<'a> {
    /// What was done.
    pub event: Action,
    /// Whose sandbox it is.
    pub tenant: &'a str,
    /// Whose sandbox it is.
    pub principal: &'a str,
    /// The workspace that the call came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<&'a str>,
    /// The request's JSON-RPC id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<&'a str>,
    /// The tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'a str>,
    /// The sandbox's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'a str>,
    /// The sandbox's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// `ok` or an error's code; of an end its status.
    pub outcome: &'a str,
    /// What ended it: `owner`, `expired`, `idle`, `stopped`, `lost`, `unfinished`, `wished`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'a str>,
    /// How long it took; of an end, how long the sandbox lived.
    pub seconds: f64,
}

/// Where events go; nowhere by default.
#[derive(Default)]
pub struct Audit(Option<Mutex<Sink>>);

enum Sink {
    Stderr,
    File { path: PathBuf, file: File },
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

impl Audit {
    /// To a file, which is made readable by its owner only, or to stderr for `-`.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn to(path: &Path) -> std::io::Result<Self> {
        let sink =
            if path == Path::new("-") { Sink::Stderr } else { Sink::File { path: path.to_owned(), file: open(path)? } };
        Ok(Self(Some(Mutex::new(sink))))
    }

    /// Writes one event. What can't be written is logged and counted; it stops nothing.
    pub fn record(&self, event: &Event<'_>) {
        let Some(sink) = &self.0 else { return };
        let line = Line { time: Timestamp::now().to_string(), event };
        let Ok(mut line) = serde_json::to_vec(&line) else { return };
        line.push(b'\n');
        if let Err(error) = sink.lock().unwrap_or_else(PoisonError::into_inner).write(&line) {
            metrics::counter!("cellgate_audit_errors_total").increment(1);
            tracing::error!(%error, "an audit event can't be written");
        }
    }
}

impl Sink {
    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Stderr => std::io::stderr().write_all(line),
            Self::File { path, file } => {
                // Whoever rotates the file moves it away.
                if std::fs::metadata(&*path).map(|now| now.ino()).ok() != file.metadata().map(|now| now.ino()).ok() {
                    *file = open(path)?;
                }
                file.write_all(line)
            }
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::{Action, Audit, Event};

    fn event(name: &str) -> Event<'_> {
        Event {
            event: Action::Launch,
            tenant: "t",
            principal: "p",
            workspace: None,
            request: Some("1"),
            tool: None,
            sandbox: None,
            name: Some(name),
            outcome: "ok",
            cause: None,
            seconds: 0.5,
        }
    }

    #[test]
    fn events_are_lines_and_go_on_in_a_new_file_after_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("audit.jsonl"), folder.path().join("audit.1"));
        let audit = Audit::to(&path).unwrap();
        audit.record(&event("a"));
        audit.record(&event("b"));
        std::fs::rename(&path, &moved).unwrap();
        audit.record(&event("c"));
        let lines = |path| -> Vec<serde_json::Value> {
            let text: String = std::fs::read_to_string(path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let old = lines(&moved);
        assert_eq!((old.len(), &old[0]["event"], &old[1]["name"]), (2, &"launch".into(), &"b".into()));
        assert!(old[0].get("workspace").is_none() && old[0]["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!(lines(&path)[0]["name"], "c");
    }
}
