//! The Helm chart: rendered and held against what it promises, then installed on a real cluster with the gateway's real image.

#[allow(dead_code, unused_imports, reason = "other suites use more of it")]
#[path = "../harness/lib.rs"]
mod harness;

mod helm;
mod install;
mod page;
mod render;
