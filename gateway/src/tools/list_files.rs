use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Tool, paging, time};
use crate::answer::{Answer, Code, Failure, Shape};
use crate::jupyter::{ContentsPath, Entry, EntryKind};
use crate::sandbox::Sandbox;
use crate::workspace::{Caller, jupyter_failure};

const COLUMNS: &[&str] = &["Path", "Type", "Size", "Last_Modified"];
const SIZES: [&str; 4] = ["B", "KB", "MB", "GB"];

/// List files of the sandbox, sorted by path.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListFiles {
    /// Directory, from the sandbox's root
    #[serde(default)]
    path: String,
    /// 0 = its own entries, 1 = and those of its sub-directories
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 3), with = "i64")]
    max_depth: u64,
    /// First row to show
    #[serde(default)]
    #[schemars(range(min = 0), with = "i64")]
    start_index: u64,
    /// Rows to show; 0 = all
    #[serde(default = "page_size")]
    #[schemars(range(min = 0), with = "i64")]
    limit: u64,
    /// Glob on the whole path, such as `data/**/*.csv`
    #[serde(default)]
    pattern: String,
    /// Sandbox; null = the active one
    #[serde(default)]
    sandbox_name: Option<String>,
}

fn one() -> u64 {
    1
}

fn page_size() -> u64 {
    25
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const TITLE: &'static str = "List Files";
    const KIND: &'static str = "files.list";
    const SHAPE: Shape = Shape::Rows;
    const HINTS: Hints = Hints::READS;
    const CACHE_MS: Option<u64> = Some(30_000);

    async fn call(self, caller: &Caller) -> Result<Answer, Failure> {
        let path =
            ContentsPath::parse(&self.path).map_err(|error| Failure::new(Code::PathInvalid, error.to_string()))?;
        let pattern = glob(&self.pattern)?;
        let sandbox = caller.sandbox(self.sandbox_name.as_deref()).await?;
        let mut entries = walk(&sandbox, &path, self.max_depth).await?;
        if let Some(pattern) = &pattern {
            entries.retain(|entry| pattern.is_match(&entry.path));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let shown = paging::of(&entries, self.start_index, self.limit);
        let total = entries.len();
        let note = paging::note(shown.len(), self.start_index, total);
        let empty = note.clone().unwrap_or_else(|| nothing(&path, &self.pattern, sandbox.name()));
        let answer = Answer::rows(COLUMNS, shown.iter().map(row).collect(), empty)
            .with("total", total)
            .with("start_index", self.start_index)
            .with("sandbox", sandbox.name());
        Ok(match note {
            Some(note) if !shown.is_empty() => answer.note(note),
            _ => answer,
        })
    }
}

fn nothing(path: &ContentsPath, pattern: &str, sandbox: &str) -> String {
    let place = if path.is_root() { "the root".to_owned() } else { format!("'{}'", path.as_str()) };
    let matching = if pattern.is_empty() { String::new() } else { format!(" that match '{pattern}'") };
    format!("There are no files{matching} in {place} of sandbox '{sandbox}'.")
}

fn glob(pattern: &str) -> Result<Option<GlobMatcher>, Failure> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| {
        Failure::new(Code::ArgumentsInvalid, format!("pattern '{pattern}' is not a glob: {}.", error.kind()))
    })?;
    Ok(Some(glob.compile_matcher()))
}

/// The entries of a directory and of those below it, `depth` levels down.
async fn walk(sandbox: &Sandbox, path: &ContentsPath, depth: u64) -> Result<Vec<Entry>, Failure> {
    let server = sandbox.server();
    let failure = |error| jupyter_failure(sandbox, &error);
    let start = server.stat(path).await.map_err(failure)?.ok_or_else(|| missing(path, sandbox.name()))?;
    if start.kind != EntryKind::Directory {
        return Ok(vec![start]);
    }
    let mut found = server.list(path).await.map_err(failure)?;
    let mut level = found.clone();
    for _ in 0..depth {
        let mut below = Vec::new();
        for directory in level.iter().filter(|entry| entry.kind == EntryKind::Directory) {
            let Ok(path) = ContentsPath::parse(&directory.path) else { continue };
            // A directory that was removed meanwhile, or may not be read, has no entries to show.
            below.extend(server.list(&path).await.unwrap_or_default());
        }
        found.extend(below.iter().cloned());
        level = below;
    }
    Ok(found)
}

fn missing(path: &ContentsPath, sandbox: &str) -> Failure {
    let message =
        format!("There is no '{}' in sandbox '{sandbox}'; list_files without a path shows the root.", path.as_str());
    Failure::new(Code::FileNotFound, message)
}

fn row(entry: &Entry) -> Vec<String> {
    let kind = match entry.kind {
        EntryKind::Directory => "directory",
        EntryKind::File => "file",
        EntryKind::Notebook => "notebook",
    };
    let size = match entry.kind {
        EntryKind::Directory => String::new(),
        _ => entry.size.map(size).unwrap_or_default(),
    };
    vec![entry.path.clone(), kind.to_owned(), size, time::shown(&entry.last_modified)]
}

/// `8B`, `1.1KB`, `3.3MB`.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1024.0 && unit + 1 < SIZES.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1}{}", SIZES[unit])
}

#[cfg(test)]
mod tests {
    use super::{glob, size};

    #[test]
    fn sizes_read_as_the_contract_says() {
        assert_eq!(size(8), "8B");
        assert_eq!(size(1127), "1.1KB");
        assert_eq!(size(3_460_301), "3.3MB");
    }

    #[test]
    fn a_star_stops_at_a_slash() {
        let pattern = glob("*.csv").unwrap().unwrap();
        assert!(pattern.is_match("a.csv") && !pattern.is_match("data/a.csv"));
        assert!(glob("**/*.csv").unwrap().unwrap().is_match("data/x/a.csv"));
        assert!(glob("[").is_err());
    }
}
