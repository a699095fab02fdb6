//! Docker sandboxes from outside: a real gateway, a real engine, over MCP.

#[allow(dead_code, unused_imports, reason = "other suites use more of it")]
#[path = "../harness/lib.rs"]
mod harness;

mod compose;
mod contract;
mod crash_matrix;
mod dock;
mod engine;
mod faults;
mod hardening;
mod images;
mod profiles;
mod reach;
mod tools;
