//! A real gateway, started and called from outside, the way a client does.
//!
//! Every answer that passes through here is held against the contract (`check`), whatever the
//! test that asked for it wants to know.

mod berth;
mod check;
mod client;
mod desk;
mod disk;
mod every_tool;
mod files;
mod gateway;
mod jupyter;
mod network;
mod processes;
mod provider;
mod python;
mod reply;
mod stdio;
mod token;
mod wait;
mod wire;

pub(crate) use berth::{Berth, LAUNCH, SOON};
pub(crate) use check::contract_tools;
pub(crate) use client::{Client, Era, Running, http};
pub(crate) use desk::{Desk, shared};
pub(crate) use disk::SmallDisk;
pub(crate) use every_tool::every_tool_answers;
pub(crate) use files::{case, read_json, sources};
pub(crate) use gateway::{Gateway, Start};
pub(crate) use jupyter::ForeignJupyter;
pub(crate) use network::Network;
pub(crate) use processes::{Process, marked, mentioning, signal};
pub(crate) use provider::{Provider, keeps_the_contract};
pub(crate) use python::{run_python, validate_notebook};
pub(crate) use reply::Reply;
pub(crate) use stdio::Stdio;
pub(crate) use token::sandbox_token;
pub(crate) use wait::{eventually, not_run};
pub(crate) use wire::Wire;
