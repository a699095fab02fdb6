//! The result layer: a tool answers one typed value, and [`seal`] makes both halves of the reply from it.
//!
//! `content` is for people and models, `structuredContent` for programs; neither is ever made from the
//! other. Sealing cleans, masks, cuts and validates, so that no tool has to think of it.

mod body;
mod code;
mod content;
mod failure;
mod fit;
mod hint;
mod image;
mod listing;
mod mask;
mod outputs;
mod render;
mod schema;
mod seal;
mod shrink;
mod terminal;
mod text;

pub use body::{Answer, Body, Part, Shape};
pub use code::Code;
pub use content::Block;
pub use failure::Failure;
pub use render::render;
pub use schema::output_schema;
pub use seal::{Contract, Limits, Sealed, seal};
pub use terminal::plain;
