//! What benches share.

#![allow(dead_code, reason = "no bench uses all of it")]

pub(crate) mod gateway;
pub(crate) mod mcp;
pub(crate) mod process;
pub(crate) mod table;
