//! Files and directories, through the Contents API.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::rest::{Call, Rest};
use super::{ContentsPath, JupyterError, Server};

/// How long a file may take to come or to go.
const FILE_LIMIT: Duration = Duration::from_secs(120);

/// A file's text, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// The whole text.
    pub text: String,
    /// What tells this version from another; servers before 2.11 give none.
    pub hash: Option<String>,
    /// When it was changed, in RFC 3339.
    pub last_modified: String,
}

/// A file or directory, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its last name.
    pub name: String,
    /// Its path from the server's root.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// In bytes; directories have none.
    pub size: Option<u64>,
    /// When it was changed, in RFC 3339.
    pub last_modified: String,
    /// What tells this version from another, where the server says.
    pub hash: Option<String>,
}

/// What an [`Entry`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// Any other file.
    File,
    /// A notebook.
    Notebook,
}

/// What Jupyter said when it had stored a notebook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// What tells the stored version from another, where the server says.
    pub hash: Option<String>,
    /// Its complaint about a document that isn't valid; it is stored all the same.
    pub message: Option<String>,
}

/// Names that mean another route of the API when they end a path. Jupyter's router compares what is
/// on the wire, and decodes it afterwards: spelled in another way they are files like any other.
const ROUTES: [&str; 2] = ["checkpoints", "trust"];

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    name: String,
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    kind: EntryKind,
    size: Option<u64>,
    last_modified: Option<String>,
    hash: Option<String>,
    content: Option<Value>,
    message: Option<String>,
}

impl Server {
    /// A file's own text, whatever it is a text of.
    pub async fn read_text(&self, path: &ContentsPath) -> Result<TextFile, JupyterError> {
        let call =
            contents(&self.rest, Method::GET, path).query("type", "file").query("format", "text").query("hash", "1");
        let model: Model = self.rest.json(call).await?;
        let last_modified = model.last_modified.unwrap_or_default();
        match model.content {
            Some(Value::String(text)) => Ok(TextFile { text, hash: model.hash, last_modified }),
            _ => Err(JupyterError::Malformed(format!("'{path}' came without its text"))),
        }
    }

    /// A notebook as Jupyter converts it to the newest format, whatever its own.
    pub async fn read_notebook(&self, path: &ContentsPath) -> Result<Value, JupyterError> {
        let model: Model = self.rest.json(contents(&self.rest, Method::GET, path).query("type", "notebook")).await?;
        model.content.ok_or_else(|| JupyterError::Malformed(format!("'{path}' came without its content")))
    }

    /// What is at that path; `None` when nothing is.
    pub async fn stat(&self, path: &ContentsPath) -> Result<Option<Entry>, JupyterError> {
        let call = || contents(&self.rest, Method::GET, path).query("content", "0");
        let model = match self.rest.json::<Model>(call().query("hash", "1")).await {
            // Jupyter fails over a directory's hash, as there is none.
            Err(JupyterError::Refused { .. }) => self.rest.json(call()).await,
            answered => answered,
        };
        match model {
            Ok(model) => Ok(Some(model.into())),
            Err(JupyterError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in a directory, in the server's order.
    pub async fn list(&self, path: &ContentsPath) -> Result<Vec<Entry>, JupyterError> {
        let mut model: Model =
            self.rest.json(contents(&self.rest, Method::GET, path).query("type", "directory")).await?;
        let entries = model.content.take().unwrap_or_default();
        let entries: Vec<Model> = serde_json::from_value(entries)
            .map_err(|error| JupyterError::Malformed(format!("the listing of '{path}': {error}")))?;
        Ok(entries.into_iter().map(Entry::from).collect())
    }

    /// Stores a notebook, over what was there.
    pub async fn write_notebook(&self, path: &ContentsPath, notebook: &Value) -> Result<Written, JupyterError> {
        let body = json!({ "type": "notebook", "format": "json", "content": notebook });
        let stored = self.rest.json(contents(&self.rest, Method::PUT, path).body(body)).await;
        let model: Model = stored.map_err(|error| missing_parent(error, path))?;
        Ok(Written { hash: model.hash, message: model.message.filter(|message| !message.is_empty()) })
    }

    /// Makes a directory; its parent has to be there.
    pub async fn create_directory(&self, path: &ContentsPath) -> Result<(), JupyterError> {
        let body = json!({ "type": "directory" });
        let made = self.rest.done(contents(&self.rest, Method::PUT, path).body(body)).await;
        made.map_err(|error| missing_parent(error, path))
    }
}

impl From<Model> for Entry {
    fn from(model: Model) -> Self {
        let last_modified = model.last_modified.unwrap_or_default();
        Self { name: model.name, path: model.path, kind: model.kind, size: model.size, last_modified, hash: model.hash }
    }
}

fn contents(rest: &Rest, method: Method, path: &ContentsPath) -> Call {
    let names = std::iter::once("contents").chain(path.names());
    rest.call(method, names).spelled_out(&ROUTES).limit(FILE_LIMIT).subject(format!("file or directory '{path}'"))
}

/// Jupyter answers 500 for a directory that isn't there.
fn missing_parent(error: JupyterError, path: &ContentsPath) -> JupyterError {
    match error {
        JupyterError::Refused { message, .. } if message.contains("[Errno 2]") => {
            JupyterError::NotFound { what: format!("directory '{}'", path.parent()) }
        }
        error => error,
    }
}
