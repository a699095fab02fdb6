//! The notebooks that a workspace has open, and which of them is current.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::binding::Binding;
use super::failure::jupyter_failure;
use super::pointers::SavedNotebook;
use super::{Caller, Document, lock};
use crate::answer::{Code, Failure};
use crate::jupyter::{ContentsPath, JupyterError};
use crate::nbformat::{Kernelspec, Notebook};
use crate::points;
use crate::sandbox::Sandbox;

/// A notebook that a workspace opened under a name.
pub struct OpenNotebook {
    /// The name the caller gave it.
    pub name: String,
    /// Where it is, from the sandbox's root.
    pub path: ContentsPath,
    /// The name of its sandbox: a new sandbox of that name has the same files.
    pub sandbox: String,
    pub(super) kernel: Mutex<Option<Binding>>,
}

/// A notebook that a call acts on, with the sandbox it lives in.
pub struct Target {
    /// The open notebook.
    pub open: Arc<OpenNotebook>,
    /// Its sandbox, which runs.
    pub sandbox: Arc<Sandbox>,
    /// Its document, shared by everyone who has that path open.
    pub document: Arc<Document>,
}

/// What `use_notebook` asks for.
pub struct Opening<'a> {
    /// The name it goes by from now on.
    pub name: &'a str,
    /// Its path from the sandbox's root.
    pub path: &'a str,
    /// Make a new file instead of opening one.
    pub create: bool,
    /// A running kernel's id, or `NEW`.
    pub kernel: Option<&'a str>,
    /// The sandbox, else the active one.
    pub sandbox: Option<&'a str>,
}

/// What became of an [`Opening`].
pub struct Opened {
    /// The notebook, current from now on.
    pub target: Target,
    /// It was open under that name before.
    pub already: bool,
}

/// What became of closing a notebook.
pub struct Closed {
    /// Whether it was open.
    pub was_open: bool,
    /// Whether its kernel was shut down with it.
    pub kernel_stopped: bool,
    /// The names of those still open.
    pub still_open: Vec<String>,
}

impl OpenNotebook {
    /// The kernel that it is bound to, if any.
    pub fn kernel_id(&self) -> Option<String> {
        lock(&self.kernel).as_ref().map(|binding| binding.kernel.clone())
    }

    pub(super) fn to_saved(&self) -> SavedNotebook {
        SavedNotebook {
            name: self.name.clone(),
            path: self.path.as_str().to_owned(),
            sandbox: self.sandbox.clone(),
            kernel: lock(&self.kernel).clone(),
        }
    }

    pub(super) fn from_saved(saved: SavedNotebook) -> Option<Self> {
        let path = ContentsPath::parse(&saved.path).ok()?;
        Some(Self { name: saved.name, path, sandbox: saved.sandbox, kernel: Mutex::new(saved.kernel) })
    }
}

impl Target {
    /// How answers name the notebook they acted on.
    pub fn tag(&self) -> Value {
        json!({"name": self.open.name, "path": self.open.path.as_str(), "sandbox": self.open.sandbox})
    }
}

impl Caller {
    /// The open notebook of that name, else the current one.
    pub fn notebook(&self, name: Option<&str>) -> Result<Target, Failure> {
        let open = self.open_notebook(name)?;
        self.target(open)
    }

    /// The documents that are in use in a sandbox of this caller's.
    pub(super) fn documents(&self, sandbox: &Sandbox) -> Vec<Arc<Document>> {
        self.workspaces.documents.of(sandbox.id())
    }

    /// The current notebook's name.
    pub fn current_notebook(&self) -> Option<String> {
        self.workspace.state().current.clone()
    }

    /// Every open notebook, in the order of opening.
    pub fn open_notebooks(&self) -> Vec<Arc<OpenNotebook>> {
        self.workspace.state().notebooks.clone()
    }

    /// Opens or creates a notebook and makes it the current one.
    pub async fn use_notebook(&self, opening: &Opening<'_>) -> Result<Opened, Failure> {
        let path =
            ContentsPath::parse(opening.path).map_err(|error| Failure::new(Code::PathInvalid, error.to_string()))?;
        if let Some(open) = self.opened_before(opening, &path)? {
            let target = self.target(open)?;
            if let Some(kernel) = opening.kernel {
                self.bind_kernel(&target, Some(kernel)).await?;
            }
            self.workspace.state().current = Some(opening.name.to_owned());
            return Ok(Opened { target, already: true });
        }
        let sandbox = self.sandbox(opening.sandbox).await?;
        let document = self.workspaces.documents.get(&sandbox, &path);
        if opening.create {
            self.create(&sandbox, &path).await?;
        } else {
            document.read().await.map_err(|failure| suggest_create(failure, opening.path))?;
        }
        let open = Arc::new(OpenNotebook {
            name: opening.name.to_owned(),
            path,
            sandbox: sandbox.name().to_owned(),
            kernel: Mutex::default(),
        });
        let target = Target { open: Arc::clone(&open), sandbox, document };
        points::reached("use.opened").await;
        self.bind_kernel(&target, opening.kernel).await?;
        let mut state = self.workspace.state();
        // Two calls may have opened the same name at once: the later one stands for both.
        state.notebooks.retain(|other| other.name != open.name);
        state.notebooks.push(open);
        state.current = Some(opening.name.to_owned());
        drop(state);
        Ok(Opened { target, already: false })
    }

    /// Closes a notebook; its kernel ends with it only if Cellgate started it and nobody else uses it.
    pub async fn unuse_notebook(&self, name: &str) -> Result<Closed, Failure> {
        let (open, still_open) = {
            let mut state = self.workspace.state();
            let at = state.notebooks.iter().position(|open| open.name == name);
            let open = at.map(|at| state.notebooks.remove(at));
            if open.is_some() && state.current.as_deref() == Some(name) {
                state.current = None;
            }
            (open, state.notebooks.iter().map(|open| open.name.clone()).collect())
        };
        let Some(open) = open else {
            return Ok(Closed { was_open: false, kernel_stopped: false, still_open });
        };
        let kernel_stopped = match self.named_sandbox(&open.sandbox) {
            Ok(sandbox) => self.release_kernel(&open, &sandbox).await?,
            Err(_) => false,
        };
        Ok(Closed { was_open: true, kernel_stopped, still_open })
    }

    fn target(&self, open: Arc<OpenNotebook>) -> Result<Target, Failure> {
        let sandbox = self.named_sandbox(&open.sandbox)?;
        let document = self.workspaces.documents.get(&sandbox, &open.path);
        Ok(Target { open, sandbox, document })
    }

    fn open_notebook(&self, name: Option<&str>) -> Result<Arc<OpenNotebook>, Failure> {
        let state = self.workspace.state();
        let wanted = name.or(state.current.as_deref());
        let found = wanted.and_then(|wanted| state.notebooks.iter().find(|open| open.name == wanted));
        if let Some(open) = found {
            return Ok(Arc::clone(open));
        }
        let names: Vec<&str> = state.notebooks.iter().map(|open| open.name.as_str()).collect();
        let what = match name {
            Some(name) => format!("No notebook is open under the name '{name}'"),
            None => "No notebook is the current one".to_owned(),
        };
        let next = if names.is_empty() {
            "call use_notebook first".to_owned()
        } else {
            format!("open are {}; pass notebook_name, or call use_notebook", names.join(", "))
        };
        Err(Failure::new(Code::NotebookNotOpen, format!("{what}: {next}.")))
    }

    /// The notebook that this opening asks for, when it is open already.
    fn opened_before(&self, opening: &Opening<'_>, path: &ContentsPath) -> Result<Option<Arc<OpenNotebook>>, Failure> {
        let state = self.workspace.state();
        let Some(open) = state.notebooks.iter().find(|open| open.name == opening.name) else { return Ok(None) };
        let other_sandbox = opening.sandbox.is_some_and(|sandbox| sandbox != open.sandbox);
        if open.path == *path && !other_sandbox {
            return Ok(Some(Arc::clone(open)));
        }
        let message = format!(
            "The name '{}' is taken by '{}' in sandbox '{}': choose another name, or call unuse_notebook first.",
            open.name,
            open.path.as_str(),
            open.sandbox
        );
        Err(Failure::new(Code::NotebookNameTaken, message))
    }

    async fn create(&self, sandbox: &Arc<Sandbox>, path: &ContentsPath) -> Result<(), Failure> {
        // Jupyter takes a file for a notebook by exactly this ending.
        if path.as_str().rsplit_once('.').is_none_or(|(_, ending)| ending != "ipynb") {
            let message = format!("'{}' can't be a notebook's path: it must end in .ipynb.", path.as_str());
            return Err(Failure::new(Code::PathInvalid, message));
        }
        let failure = |error: JupyterError| jupyter_failure(sandbox, &error);
        // The Contents API can't create only when nothing is there, so creations wait for each other.
        let _one_at_a_time = self.workspaces.documents.creating().await;
        if sandbox.server().stat(path).await.map_err(failure)?.is_some() {
            let message =
                format!("'{}' exists: call use_notebook with mode \"connect\", or choose another path.", path.as_str());
            return Err(Failure::new(Code::NotebookExists, message));
        }
        self.create_parents(sandbox, path).await?;
        let notebook = Notebook::new(&self.default_kernelspec(sandbox).await?);
        match sandbox.server().write_notebook(path, &notebook.to_value()).await {
            Ok(_) => Ok(()),
            // Hidden names and places that Jupyter may not write to.
            Err(JupyterError::Refused { status: 400 | 403, message }) => {
                let message = format!("'{}' can't be created: {message}. Choose another path.", path.as_str());
                Err(Failure::new(Code::PathInvalid, message))
            }
            Err(error) => Err(failure(error)),
        }
    }

    async fn create_parents(&self, sandbox: &Arc<Sandbox>, path: &ContentsPath) -> Result<(), Failure> {
        let failure = |error: JupyterError| jupyter_failure(sandbox, &error);
        let mut missing = Vec::new();
        let mut parent = path.parent();
        while !parent.is_root() && sandbox.server().stat(&parent).await.map_err(failure)?.is_none() {
            missing.push(parent.clone());
            parent = parent.parent();
        }
        for directory in missing.iter().rev() {
            sandbox.server().create_directory(directory).await.map_err(failure)?;
        }
        Ok(())
    }

    async fn default_kernelspec(&self, sandbox: &Arc<Sandbox>) -> Result<Kernelspec, Failure> {
        let specs = sandbox.server().kernelspecs().await.map_err(|error| jupyter_failure(sandbox, &error))?;
        specs.specs.get(&specs.default).or_else(|| specs.specs.values().next()).cloned().ok_or_else(|| {
            let message = format!("Sandbox '{}' has no kernel installed.", sandbox.name());
            Failure::new(Code::KernelNotInstalled, message)
        })
    }
}

fn suggest_create(failure: Failure, path: &str) -> Failure {
    if failure.code != Code::NotebookNotFound {
        return failure;
    }
    let message = format!(
        "There is no notebook '{path}': call use_notebook with mode \"create\" to make it, or list_files to see what is there."
    );
    Failure::new(Code::NotebookNotFound, message)
}
