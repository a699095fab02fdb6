//! Sandboxes: who provides them, and their life from launch to end.
//!
//! The [`Fleet`] promises that a record is written before anything is made, that what fails half-way
//! is taken down again, and that nothing of a gateway that died outlives the next start. A
//! [`SandboxProvider`] only makes and ends what it is told to.

mod attachable;
mod cause;
mod docker;
mod doctor;
mod error;
mod fleet;
mod identity;
mod instance;
mod keys;
mod kubernetes;
mod ledger;
mod name;
mod process;
mod profile;
mod progress;
mod provider;
mod record;
mod records;
mod removal;
mod request;
mod size;
mod store;
mod threads;
mod variables;

pub use attachable::{Attachable, Pattern};
pub use docker::DockerConfig;
pub use doctor::{Finding, doctor};
pub use error::FleetError;
pub use fleet::{ATTACHED, Fleet, FleetConfig, KeptFiles, Launched, Lifetimes, Sandbox, Terminated};
pub use identity::{Owner, SandboxId};
pub use kubernetes::{KubernetesConfig, sweep};
pub use ledger::{Ledger, is_of};
pub use process::running_processes;
pub use profile::{Egress, Profile, Profiles};
pub use progress::Progress;
pub use provider::{Endpoint, Found, Plan, ProviderError, SandboxProvider};
pub use record::{Record, Status};
pub use records::{Capacity, Records};
pub use request::LaunchRequest;
pub use size::Size;
pub use store::{StoredFiles, WorkspaceStore};

use name::check_name;
use variables::check_variables;
