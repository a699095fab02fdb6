//! Sandboxes: who provides them, and their life from launch to end.
//!
//! The [`Fleet`] promises that a record is written before anything is made, that what fails half-way
//! is taken down again, and that nothing of a gateway that died outlives the next start. A
//! [`SandboxProvider`] only makes and ends what it is told to.

mod doctor;
mod error;
mod fleet;
mod identity;
mod instance;
mod process;
mod progress;
mod provider;
mod record;
mod records;
mod request;
mod token;

pub use doctor::{Finding, doctor};
pub use error::FleetError;
pub use fleet::{Fleet, FleetConfig, Launched, Sandbox, Terminated};
pub use identity::{Owner, SandboxId};
pub use process::running_processes;
pub use progress::Progress;
pub use provider::{Endpoint, Plan, ProviderError, SandboxProvider};
pub use record::{Record, Status};
pub use request::LaunchRequest;
