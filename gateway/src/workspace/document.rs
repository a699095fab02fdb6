//! A notebook in a sandbox, read and edited one step at a time.
//!
//! Edits of one path are applied in the order in which they came: each finds its cells, checks
//! and writes under the path's lock. Through the Contents API, a file that somebody else changed
//! meanwhile (its hash tells) is read again and the edit found anew, never written over.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::cell_ids::SavedIds;
use super::failure::jupyter_failure;
use super::lock;
use crate::answer::{Code, Failure};
use crate::database::Database;
use crate::jupyter::{ContentsPath, JupyterError, Server};
use crate::nbformat::{CellIds, CellRef, DisplayUpdate, Edit, Notebook, NotebookError, Outcome};
use crate::sandbox::{Sandbox, SandboxId};

/// How often an edit is found anew when somebody else keeps changing the file.
const ATTEMPTS: usize = 8;

/// A notebook that can be read and edited: through the Contents API here, in a collaboration room
/// where a server has one.
pub trait NotebookDocument: Send + Sync {
    /// The notebook as it is now; every cell has an id.
    fn read(&self) -> BoxFuture<'_, Result<Notebook, Failure>>;
    /// Finds and makes the edit as one step, and answers what it touched once that is stored.
    fn apply<'a>(&'a self, edit: &'a Edit) -> BoxFuture<'a, Result<Outcome, Failure>>;
}

/// Where each display of each kernel is: the cells and the indices of their outputs.
type Displays = HashMap<(String, String), Vec<(String, usize)>>;

/// A notebook's document with what its runs left that no file holds.
pub struct Document {
    notebook: Box<dyn NotebookDocument>,
    displays: Mutex<Displays>,
    running: Mutex<HashSet<String>>,
    /// Held while a kernel is being found or started for this path, so that there is only one.
    pub(super) binding: tokio::sync::Mutex<()>,
}

impl Document {
    /// The notebook as it is now.
    pub async fn read(&self) -> Result<Notebook, Failure> {
        self.notebook.read().await
    }

    /// Makes an edit as one step.
    pub async fn apply(&self, edit: &Edit) -> Result<Outcome, Failure> {
        self.notebook.apply(edit).await
    }

    /// Whether a run of that cell is under way.
    pub fn is_running(&self, cell: &str) -> bool {
        lock(&self.running).contains(cell)
    }

    pub(super) fn set_running(&self, cell: &str, running: bool) {
        let mut cells = lock(&self.running);
        if running {
            cells.insert(cell.to_owned())
        } else {
            cells.remove(cell)
        };
    }

    /// Remembers which outputs of `cell` a later display update of that kernel may replace.
    pub(super) fn remember_displays(&self, kernel: &str, cell: &str, displays: Vec<(String, usize)>) {
        let mut known = lock(&self.displays);
        for places in known.values_mut() {
            places.retain(|(of, _)| of != cell);
        }
        known.retain(|_, places| !places.is_empty());
        for (display, output) in displays {
            known.entry((kernel.to_owned(), display)).or_default().push((cell.to_owned(), output));
        }
    }

    /// Applies a kernel's update of a display to the cells that ran before and showed it.
    pub(super) async fn update_display(
        &self,
        (kernel, display): (&str, &str),
        update: &DisplayUpdate,
    ) -> Result<(), Failure> {
        let display = (kernel.to_owned(), display.to_owned());
        let places = lock(&self.displays).get(&display).cloned().unwrap_or_default();
        for (cell, output) in places {
            let cell = CellRef { id: Some(cell), index: None };
            let (data, metadata) = (update.data.clone(), update.metadata.clone());
            self.apply(&Edit::SetOutput { cell, output, data, metadata }).await?;
        }
        Ok(())
    }
}

/// The documents in use, one for each path of each sandbox, so that all callers share its order.
pub(super) struct Documents {
    database: Arc<Database>,
    open: Mutex<HashMap<(SandboxId, String), Arc<Document>>>,
    creating: tokio::sync::Mutex<()>,
}

impl Documents {
    /// None yet; the ids of cells without stored ones are saved in `database`.
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, open: Mutex::default(), creating: tokio::sync::Mutex::default() }
    }

    pub(super) fn get(&self, sandbox: &Arc<Sandbox>, path: &ContentsPath) -> Arc<Document> {
        let key = (sandbox.id().clone(), path.as_str().to_owned());
        let mut documents = lock(&self.open);
        let document = documents.entry(key).or_insert_with(|| {
            let saved = SavedIds {
                database: Arc::clone(&self.database),
                owner: sandbox.owner().clone(),
                sandbox: sandbox.name().to_owned(),
                path: path.as_str().to_owned(),
                last: Mutex::default(),
            };
            let notebook = Box::new(ContentsDocument::new(Arc::clone(sandbox), path.clone(), saved));
            Arc::new(Document {
                notebook,
                displays: Mutex::default(),
                running: Mutex::default(),
                binding: tokio::sync::Mutex::default(),
            })
        });
        Arc::clone(document)
    }

    /// Those of a sandbox.
    pub(super) fn of(&self, sandbox: &SandboxId) -> Vec<Arc<Document>> {
        let documents = lock(&self.open);
        documents.iter().filter(|((of, _), _)| of == sandbox).map(|(_, document)| Arc::clone(document)).collect()
    }

    /// Held while a notebook is being created.
    pub(super) async fn creating(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.creating.lock().await
    }

    /// Forgets the documents of a sandbox that ended.
    pub(super) fn forget(&self, sandbox: &SandboxId) {
        lock(&self.open).retain(|(of, _), _| of != sandbox);
    }
}

/// A notebook through the Contents API of its sandbox's Jupyter.
struct ContentsDocument {
    sandbox: Arc<Sandbox>,
    path: ContentsPath,
    /// Held while an edit is found and written: this is the order of the path.
    ids: tokio::sync::Mutex<CellIds>,
    saved: SavedIds,
}

impl ContentsDocument {
    fn new(sandbox: Arc<Sandbox>, path: ContentsPath, saved: SavedIds) -> Self {
        let ids = tokio::sync::Mutex::new(saved.load());
        Self { sandbox, path, ids, saved }
    }

    fn server(&self) -> &Server {
        self.sandbox.server()
    }

    /// The notebook and the hash of the file it was read from.
    async fn load(&self, ids: &mut CellIds) -> Result<(Notebook, Option<String>), Failure> {
        // The file's own text, since Jupyter mints new cell ids on every conversion it makes.
        let file = self.server().read_text(&self.path).await.map_err(|error| self.unread(&error))?;
        let mut notebook = match Notebook::parse(&file.text) {
            Err(NotebookError::Old(_)) => self.converted().await?,
            parsed => parsed.map_err(|error| self.invalid(&error))?,
        };
        notebook.identify(ids);
        self.saved.keep(ids, &notebook);
        Ok((notebook, file.hash))
    }

    /// A notebook of an nbformat before 4, as Jupyter converts it.
    async fn converted(&self) -> Result<Notebook, Failure> {
        let value = self.server().read_notebook(&self.path).await.map_err(|error| self.failure(&error))?;
        Notebook::from_conversion(value).map_err(|error| self.invalid(&error))
    }

    async fn edit(&self, edit: &Edit) -> Result<Outcome, Failure> {
        let mut ids = self.ids.lock().await;
        for _ in 0..ATTEMPTS {
            let (mut notebook, hash) = self.load(&mut ids).await?;
            let resolved = notebook.resolve(edit)?;
            if resolved.operations.is_empty() {
                return Ok(resolved.outcome);
            }
            for operation in &resolved.operations {
                notebook.apply(operation);
            }
            if self.changed_since(hash.as_deref()).await? {
                continue;
            }
            self.store(&notebook).await?;
            notebook.remember(&mut ids);
            self.saved.keep(&ids, &notebook);
            return Ok(resolved.outcome);
        }
        let message = format!(
            "'{}' is being changed by something else all the time, so the edit was not made; read the notebook and try again.",
            self.path.as_str()
        );
        Err(Failure::new(Code::NotebookConflict, message))
    }

    async fn changed_since(&self, hash: Option<&str>) -> Result<bool, Failure> {
        let Some(hash) = hash else { return Ok(false) };
        let entry = self.server().stat(&self.path).await.map_err(|error| self.failure(&error))?;
        let Some(entry) = entry else { return Err(self.missing()) };
        Ok(entry.hash.is_some_and(|now| now != hash))
    }

    async fn store(&self, notebook: &Notebook) -> Result<(), Failure> {
        let written = self.server().write_notebook(&self.path, &notebook.to_value()).await;
        let written = written.map_err(|error| self.failure(&error))?;
        if let Some(complaint) = written.message {
            // Jupyter saved it all the same: what it complains of was in the file before the edit.
            tracing::warn!(path = self.path.as_str(), complaint, "the saved notebook is not valid nbformat");
        }
        Ok(())
    }

    fn missing(&self) -> Failure {
        let message = format!(
            "There is no file '{}' in sandbox '{}' any more; list_files shows what is there.",
            self.path.as_str(),
            self.sandbox.name()
        );
        Failure::new(Code::NotebookNotFound, message)
    }

    fn invalid(&self, error: &NotebookError) -> Failure {
        Failure::new(Code::NotebookInvalid, format!("'{}' can't be used: {error}", self.path.as_str()))
    }

    /// Jupyter answers 400 for what it can't read as text: a directory, or bytes that are no UTF-8.
    fn unread(&self, error: &JupyterError) -> Failure {
        match error {
            JupyterError::Refused { status: 400, .. } => {
                let message =
                    format!("'{}' can't be used: it is no text file, and a notebook is one.", self.path.as_str());
                Failure::new(Code::NotebookInvalid, message)
            }
            error => self.failure(error),
        }
    }

    fn failure(&self, error: &JupyterError) -> Failure {
        match error {
            JupyterError::NotFound { .. } => self.missing(),
            error => jupyter_failure(&self.sandbox, error),
        }
    }
}

impl NotebookDocument for ContentsDocument {
    fn read(&self) -> BoxFuture<'_, Result<Notebook, Failure>> {
        Box::pin(async move {
            let mut ids = self.ids.lock().await;
            Ok(self.load(&mut ids).await?.0)
        })
    }

    fn apply<'a>(&'a self, edit: &'a Edit) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.edit(edit))
    }
}
