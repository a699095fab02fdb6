//! Cellgate: one MCP endpoint in front of as many Jupyter sandboxes as your agents need.
//!
//! The modules are floors, lowest first: [`nbformat`], [`answer`], [`jupyter`], [`sandbox`],
//! [`workspace`], [`tools`], and on top the protocol faces [`mcp`], [`stdio`] and [`http`].
//! A floor uses only those below it.

pub mod answer;
pub mod audit;
pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod database;
pub mod demo;
pub mod http;
pub mod jupyter;
pub mod mcp;
pub mod nbformat;
pub mod operate;
pub mod points;
pub mod sandbox;
pub mod service;
pub mod stdio;
pub mod telemetry;
pub mod tools;
pub mod workspace;
