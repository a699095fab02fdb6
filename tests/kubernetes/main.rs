//! Kubernetes sandboxes from outside: a real gateway, a real cluster, over MCP.

#[allow(dead_code, unused_imports, reason = "other suites use more of it")]
#[path = "../harness/lib.rs"]
mod harness;

mod contract;
mod crash_matrix;
mod faults;
mod hardening;
mod records;
mod scale;
mod stalls;
mod tools;
mod yard;
