//! The closed set of error codes.

use std::fmt;

/// What kind of failure an answer tells of. Programs decide by it; `docs/errors.md` explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "`meaning` says it for each, and the documentation is made from that")]
pub enum Code {
    ArgumentsInvalid,
    PathInvalid,
    FileNotFound,
    NotebookNotOpen,
    NotebookNotFound,
    NotebookExists,
    NotebookNameTaken,
    NotebookInvalid,
    NotebookConflict,
    CellNotFound,
    CellAmbiguous,
    CellWrongType,
    EditNoMatch,
    EditAmbiguous,
    KernelNotFound,
    KernelNotInstalled,
    KernelDied,
    KernelBusy,
    ExecutionTimeout,
    ExecutionCancelled,
    SandboxNone,
    SandboxNotFound,
    SandboxNameTaken,
    SandboxLaunchFailed,
    SandboxNotReady,
    SandboxGone,
    SandboxLimit,
    ProviderUnavailable,
    ProviderUnsupported,
    JupyterUnreachable,
    JupyterUnauthorized,
    Forbidden,
    Overloaded,
    Internal,
}

/// A code as it is sent, what it means, and what to do about it.
type Row = (&'static str, &'static str, &'static str);

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 34] = [
        Self::ArgumentsInvalid,
        Self::PathInvalid,
        Self::FileNotFound,
        Self::NotebookNotOpen,
        Self::NotebookNotFound,
        Self::NotebookExists,
        Self::NotebookNameTaken,
        Self::NotebookInvalid,
        Self::NotebookConflict,
        Self::CellNotFound,
        Self::CellAmbiguous,
        Self::CellWrongType,
        Self::EditNoMatch,
        Self::EditAmbiguous,
        Self::KernelNotFound,
        Self::KernelNotInstalled,
        Self::KernelDied,
        Self::KernelBusy,
        Self::ExecutionTimeout,
        Self::ExecutionCancelled,
        Self::SandboxNone,
        Self::SandboxNotFound,
        Self::SandboxNameTaken,
        Self::SandboxLaunchFailed,
        Self::SandboxNotReady,
        Self::SandboxGone,
        Self::SandboxLimit,
        Self::ProviderUnavailable,
        Self::ProviderUnsupported,
        Self::JupyterUnreachable,
        Self::JupyterUnauthorized,
        Self::Forbidden,
        Self::Overloaded,
        Self::Internal,
    ];

    /// The code as it is sent, for example `cell.not_found`.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// What happened, in one sentence.
    pub fn meaning(self) -> &'static str {
        self.row().1
    }

    /// What to do about it, in one sentence.
    pub fn advice(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> Row {
        match self {
            Self::ArgumentsInvalid | Self::PathInvalid | Self::FileNotFound => self.argument_row(),
            Self::NotebookNotOpen
            | Self::NotebookNotFound
            | Self::NotebookExists
            | Self::NotebookNameTaken
            | Self::NotebookInvalid
            | Self::NotebookConflict => self.notebook_row(),
            Self::CellNotFound
            | Self::CellAmbiguous
            | Self::CellWrongType
            | Self::EditNoMatch
            | Self::EditAmbiguous => self.cell_row(),
            Self::KernelNotFound
            | Self::KernelNotInstalled
            | Self::KernelDied
            | Self::KernelBusy
            | Self::ExecutionTimeout
            | Self::ExecutionCancelled => self.kernel_row(),
            Self::SandboxNone
            | Self::SandboxNotFound
            | Self::SandboxNameTaken
            | Self::SandboxLaunchFailed
            | Self::SandboxNotReady
            | Self::SandboxGone
            | Self::SandboxLimit => self.sandbox_row(),
            _ => self.server_row(),
        }
    }

    fn argument_row(self) -> Row {
        match self {
            Self::PathInvalid => (
                "path.invalid",
                "The path leaves the sandbox's root or can't be a path.",
                "Give a path relative to the root, with `/` between its parts; `list_files` shows what is there.",
            ),
            Self::FileNotFound => (
                "file.not_found",
                "There is no file or directory at the path.",
                "Look with `list_files`, then use a path from its answer.",
            ),
            _ => (
                "arguments.invalid",
                "An argument is missing, unknown, of the wrong type or outside its range.",
                "Correct the argument that the message names and call again; nothing was changed.",
            ),
        }
    }

    fn notebook_row(self) -> Row {
        match self {
            Self::NotebookNotFound => (
                "notebook.not_found",
                "There is no notebook at the path.",
                "Look with `list_files`, or open it with `mode` set to `create` to make a new one.",
            ),
            Self::NotebookExists => (
                "notebook.exists",
                "A new notebook was asked for where a file is already.",
                "Open it with `mode` set to `connect`, or choose another path.",
            ),
            Self::NotebookNameTaken => (
                "notebook.name_taken",
                "The name is in use for a notebook at another path.",
                "Choose another `notebook_name`, or close the other notebook with `unuse_notebook` first.",
            ),
            Self::NotebookInvalid => (
                "notebook.invalid",
                "The file is not a notebook that can be read.",
                "Repair or replace the file, or open another one.",
            ),
            Self::NotebookConflict => (
                "notebook.conflict",
                "Somebody else kept changing the notebook, so the edit was not made.",
                "Read the notebook again, then repeat the edit.",
            ),
            _ => (
                "notebook.not_open",
                "No notebook of that name is open, or none is current.",
                "Open it with `use_notebook`; `list_notebooks` names those that are open.",
            ),
        }
    }

    fn cell_row(self) -> Row {
        match self {
            Self::CellAmbiguous => {
                ("cell.ambiguous", "More than one cell has that id.", "Address the cell by its index.")
            }
            Self::CellWrongType => (
                "cell.wrong_type",
                "The cell is of a type that this can't be done with.",
                "Choose a code cell; `read_notebook` shows the types.",
            ),
            Self::EditNoMatch => (
                "edit.no_match",
                "The text to replace is not in the cell.",
                "Read the cell with `read_cell` and copy the text exactly, white space included.",
            ),
            Self::EditAmbiguous => (
                "edit.ambiguous",
                "The text to replace is in the cell more than once.",
                "Give more of the text around it, or set `replace_all`.",
            ),
            _ => (
                "cell.not_found",
                "No cell has that id or index.",
                "Get the ids with `read_notebook`, then address the cell by its id.",
            ),
        }
    }

    fn kernel_row(self) -> Row {
        match self {
            Self::KernelNotInstalled => (
                "kernel.not_installed",
                "The sandbox has no kernel of the kind that was asked for.",
                "Use one of the kernels that `list_kernels` shows, or an environment that has it.",
            ),
            Self::KernelDied => (
                "kernel.died",
                "The kernel ended while the code ran, and its variables are lost.",
                "Run the cells that the code depends on again, with less memory if that was the reason.",
            ),
            Self::KernelBusy => (
                "kernel.busy",
                "The kernel is still running something else.",
                "Wait and call again, or stop what runs with `restart_notebook`.",
            ),
            Self::ExecutionTimeout => (
                "execution.timeout",
                "The code ran longer than its time limit and was interrupted.",
                "Give a larger `timeout`, or run the work in smaller steps; variables are kept.",
            ),
            Self::ExecutionCancelled => (
                "execution.cancelled",
                "The call was taken back before the code had ended.",
                "Call again if the code should run after all.",
            ),
            _ => ("kernel.not_found", "No kernel has that id.", "Take an id from `list_kernels`, or leave it out."),
        }
    }

    fn sandbox_row(self) -> Row {
        match self {
            Self::SandboxNotFound => (
                "sandbox.not_found",
                "No sandbox of yours has that name.",
                "Take a name from `list_sandboxes`, or start one with `launch_sandbox`.",
            ),
            Self::SandboxNameTaken => (
                "sandbox.name_taken",
                "A sandbox of that name runs with other settings.",
                "Use it as it is with `use_sandbox`, terminate it first, or choose another name.",
            ),
            Self::SandboxLaunchFailed => (
                "sandbox.launch_failed",
                "The sandbox did not come up, and what was begun is removed.",
                "Read the reason in the message, then launch again with other settings.",
            ),
            Self::SandboxNotReady => (
                "sandbox.not_ready",
                "The sandbox is still starting.",
                "Wait a few seconds and call again; `list_sandboxes` shows its status.",
            ),
            Self::SandboxGone => (
                "sandbox.gone",
                "The sandbox has ended; its files are kept unless the answer says otherwise.",
                "Launch it again under the same name with `launch_sandbox` to go on with its files.",
            ),
            Self::SandboxLimit => (
                "sandbox.limit",
                "There are as many sandboxes as there may be, of yours or of everyone together.",
                "End one of yours with `terminate_sandbox`; `list_sandboxes` names them. Or try again later.",
            ),
            _ => (
                "sandbox.none",
                "No sandbox is active, and none could be chosen.",
                "Call `launch_sandbox`, or `use_sandbox` with the name of one that runs.",
            ),
        }
    }

    fn server_row(self) -> Row {
        match self {
            Self::ProviderUnavailable => (
                "provider.unavailable",
                "What starts the sandboxes doesn't work at the moment.",
                "Ask the operator to run `cellgate doctor`, or launch with another `variant`.",
            ),
            Self::ProviderUnsupported => (
                "provider.unsupported",
                "The provider can't keep one of the wishes.",
                "Leave out the wish that the message names, or launch with another `variant`.",
            ),
            Self::JupyterUnreachable => (
                "jupyter.unreachable",
                "The Jupyter server does not answer.",
                "Check that it runs and that the URL is right, then call again.",
            ),
            Self::JupyterUnauthorized => (
                "jupyter.unauthorized",
                "The Jupyter server refused the token.",
                "Connect again with `connect_to_jupyter` and the server's current token.",
            ),
            Self::Forbidden => {
                ("forbidden", "The operator does not allow this.", "Ask the operator, or do it another way.")
            }
            Self::Overloaded => (
                "overloaded",
                "There is no room for this now: too many calls, too much data, or a full disk.",
                "Wait and call again, ask for less, or free some space.",
            ),
            _ => (
                "internal",
                "The gateway made a mistake; its log has the details.",
                "Try once more, then tell the operator the time of the call.",
            ),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PAGE: &str = include_str!("../../../docs/errors.md");

    #[test]
    fn every_code_is_named_once() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn documentation_lists_exactly_these_codes() {
        let documented: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<_> =
            Code::ALL.iter().map(|code| format!("| `{code}` | {} | {} |", code.meaning(), code.advice())).collect();
        assert_eq!(documented, expected, "docs/errors.md has to follow the code");
    }
}
