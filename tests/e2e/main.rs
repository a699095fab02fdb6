//! The gateway from outside: real processes, real kernels, over MCP.

#[allow(dead_code, unused_imports, reason = "other suites use more of it")]
#[path = "../harness/lib.rs"]
mod harness;

mod arguments;
mod audit;
mod case_edits;
mod case_outputs;
mod case_runs;
mod cells;
mod check;
mod child_processes;
mod commands;
mod contract;
mod crash_matrix;
mod crashes;
mod crowds;
mod dead_mans_switch;
mod endings;
mod eras;
mod execution;
mod faults;
mod first_steps;
mod foreign;
mod hostile;
mod http;
mod kernels;
mod limits;
mod listings;
mod model;
mod networks;
mod notebooks;
mod other_kernels;
mod principals;
mod python_client;
mod restarts;
mod sandboxes;
mod settings;
mod siblings;
mod strangers;
mod takeover;
mod tasks;
mod threads;
mod tool_list;
mod vanishing;
mod zoo;
