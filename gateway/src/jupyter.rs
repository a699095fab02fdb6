//! A client of one Jupyter server: its REST API, and the channels of its kernels.
//!
//! It promises that a run ends exactly once, with its cause told apart, that a kernel is handed
//! one run at a time in the order they came, and that the token is in no URL and in no error.

mod channel;
mod contents;
mod conversation;
mod dial;
mod ended;
mod error;
#[cfg(fuzzing)]
mod fuzz;
mod heard;
mod kernel;
mod kernels;
mod kernelspecs;
mod path;
mod rest;
mod run;
mod server;
mod sessions;
mod watch;
mod wire;

pub use contents::{Entry, EntryKind, TextFile, Written};
pub use ended::{Cause, Ended, RunStatus};
pub use error::JupyterError;
#[cfg(fuzzing)]
pub use fuzz::events_of_frame;
pub use kernel::{Event, Kernel, Run};
pub use kernels::KernelModel;
pub use kernelspecs::Kernelspecs;
pub use path::{ContentsPath, PathError};
pub use server::Server;
pub use sessions::{KernelChoice, SessionModel};
