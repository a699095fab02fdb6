//! The labels of what is made in a cluster. They say whose it is; the record object says what is to become of it.

use std::collections::BTreeMap;

use crate::sandbox::Plan;

/// The sandbox that something belongs to.
pub(super) const SANDBOX: &str = "cellgate.io/sandbox";
/// The gateway, or the release, that looks after it: another's is not even looked at.
pub(super) const GATEWAY: &str = "cellgate.io/gateway";
/// Counts what was made for it.
const GENERATION: &str = "cellgate.io/generation";
/// What an object is for.
pub(super) const ROLE: &str = "cellgate.io/role";
pub(super) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// On a claim: whose files are in it.
pub(super) const TENANT: &str = "cellgate.io/tenant";
pub(super) const PRINCIPAL: &str = "cellgate.io/principal";
pub(super) const NAME: &str = "cellgate.io/name";
/// On a claim: the sandbox whose launch made it.
pub(super) const MADE_FOR: &str = "cellgate.io/made-for";
pub(super) const PRODUCT: &str = "cellgate";

/// Labels from pairs.
pub(super) fn of<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
}

/// The labels of everything that is a sandbox's own.
pub(super) fn of_sandbox(gateway: &str, plan: &Plan, role: &str) -> BTreeMap<String, String> {
    let (id, generation) = (plan.id.as_str(), plan.generation.to_string());
    of([(MANAGED_BY, PRODUCT), (GATEWAY, gateway), (SANDBOX, id), (GENERATION, &generation), (ROLE, role)])
}
