//! The labels of what is made in an engine. They say whose it is; the records say what becomes of it.

use std::collections::HashMap;

use crate::sandbox::Owner;

/// The sandbox that something belongs to.
pub(super) const SANDBOX: &str = "io.cellgate.sandbox";
/// The gateway instance that made it.
pub(super) const INSTANCE: &str = "io.cellgate.instance";
/// The data directory that its records are in: what is another's is not even looked at.
pub(super) const DIRECTORY: &str = "io.cellgate.directory";
/// What it is for, beside the sandbox itself.
pub(super) const ROLE: &str = "io.cellgate.role";
/// Whose it is, and its name. A copy of the record, for people and for a lost data directory.
pub(super) const TENANT: &str = "io.cellgate.tenant";
pub(super) const PRINCIPAL: &str = "io.cellgate.principal";
pub(super) const NAME: &str = "io.cellgate.name";
/// The sandbox whose launch made a volume that outlives it.
pub(super) const MADE_FOR: &str = "io.cellgate.made-for";
pub(super) const GENERATION: &str = "io.cellgate.generation";
pub(super) const EXPIRES_AT: &str = "io.cellgate.expires-at";
/// The version of the contract that an image keeps.
pub(super) const CONTRACT: &str = "io.cellgate.contract";
/// On what only building needs.
pub(super) const BUILD: &str = "io.cellgate.build";

/// Labels from pairs.
pub(super) fn of<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
    pairs.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
}

/// The labels of a name of an owner.
pub(super) fn of_name(directory: &str, owner: &Owner, name: &str) -> HashMap<String, String> {
    of([(DIRECTORY, directory), (TENANT, &owner.tenant), (PRINCIPAL, &owner.principal), (NAME, name)])
}

/// A filter for what has all of these labels.
pub(super) fn filter<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, Vec<String>> {
    let wanted =
        pairs.map(|(label, value)| if value.is_empty() { label.to_owned() } else { format!("{label}={value}") });
    HashMap::from([("label".to_owned(), wanted.to_vec())])
}
