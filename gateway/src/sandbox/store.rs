//! The files of sandboxes, which outlive them: each name of an owner has its own.

use std::io;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::{Owner, SandboxId};

/// The files of a name, wherever they are.
#[derive(Clone, Debug)]
pub struct StoredFiles {
    /// Whose they are.
    pub owner: Owner,
    /// The sandbox's name, which brings them back.
    pub name: String,
    /// Where they are, as answers tell it.
    pub place: String,
    /// How large they are; unknown where nobody tells.
    pub bytes: Option<u64>,
    /// When they were last changed, as far as that can be told.
    pub changed_at: Timestamp,
}

/// What is left to do of a deletion. Nothing finds the files by their name any more.
pub(super) type Rest = BoxFuture<'static, io::Result<()>>;

/// Where a provider keeps them.
pub trait WorkspaceStore: Send + Sync {
    /// Where the files of a name are or will be, as answers tell it.
    fn place(&self, owner: &Owner, name: &str) -> String;

    /// Whether they are there when their sandbox ended.
    fn outlives_sandboxes(&self) -> bool {
        true
    }

    /// Whether an earlier sandbox of that name left any.
    fn has<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<bool>>;

    /// Whether the launch of this sandbox, in which nothing ever ran, made their place: nothing was ever in them.
    fn is_unused<'a>(
        &'a self,
        owner: &'a Owner,
        name: &'a str,
        launched: &'a SandboxId,
    ) -> BoxFuture<'a, io::Result<bool>>;

    /// All that there are, used or not.
    fn list(&self) -> BoxFuture<'_, io::Result<Vec<StoredFiles>>>;

    /// Takes the files away from their name, quickly: a sandbox of that name finds all of them or none.
    fn take_away<'a>(&'a self, owner: &'a Owner, name: &'a str) -> BoxFuture<'a, io::Result<Rest>>;

    /// Deletes what interrupted deletions left.
    fn clear_up(&self) -> BoxFuture<'_, io::Result<()>>;
}
