//! What the protocol's face needs to know of a tool, made once from its type.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{Tool, arguments, schema};
use crate::answer::{Answer, Contract, Failure, output_schema};
use crate::audit::Action;
use crate::workspace::Caller;

/// What a client may assume of a tool before it calls it (MCP `ToolAnnotations`).
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// Calling it twice with the same arguments is calling it once.
    pub idempotent: bool,
    /// It runs code, or reaches what Cellgate doesn't know.
    pub open_world: bool,
}

impl Hints {
    /// Reads, and changes nothing.
    pub const READS: Self = Self { read_only: true, idempotent: true, open_world: false };
    /// Changes something; a second same call changes it again.
    pub const CHANGES: Self = Self { read_only: false, idempotent: false, open_world: false };
    /// Changes something; a second same call changes nothing more.
    pub const SETS: Self = Self { read_only: false, idempotent: true, open_world: false };
    /// Runs code or starts what runs code.
    pub const RUNS: Self = Self { read_only: false, idempotent: false, open_world: true };
}

type Runner = for<'a> fn(Value, &'a Caller, &'a Value) -> BoxFuture<'a, Result<Answer, Failure>>;

/// A tool of the catalogue.
pub struct Entry {
    /// Name, kind, shape and cache hint.
    pub contract: Contract,
    /// The title that people see.
    pub title: &'static str,
    /// What a model reads.
    pub description: String,
    /// What a client may assume.
    pub hints: Hints,
    /// The parameters, in the form that goes over the wire.
    pub input_schema: Value,
    /// The advertised output schema.
    pub output_schema: Value,
    /// What the audit trail calls it, where that is to know of each call.
    pub audit: Option<Action>,
    run: Runner,
}

impl Entry {
    pub(super) fn of<T: Tool>() -> Self {
        let contract = Contract { tool: T::NAME, kind: T::KIND, shape: T::SHAPE, cache_ms: T::CACHE_MS };
        let (description, input_schema) = schema::input::<T>();
        Self {
            output_schema: output_schema(&contract),
            contract,
            title: T::TITLE,
            description,
            hints: T::HINTS,
            input_schema,
            audit: T::AUDIT,
            run: run::<T>,
        }
    }

    /// Reads the arguments and calls the tool.
    pub async fn call(&self, arguments: Value, caller: &Caller) -> Result<Answer, Failure> {
        (self.run)(arguments, caller, &self.input_schema).await
    }
}

fn run<'a, T: Tool>(arguments: Value, caller: &'a Caller, schema: &'a Value) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let arguments = arguments::read::<T>(arguments, schema)?;
        arguments.call(caller).await
    })
}
