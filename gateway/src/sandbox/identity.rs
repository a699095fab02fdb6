//! Whose a sandbox is, and what it is called.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The letters of ids: RFC 4648's base32 in lower case, which a DNS label may hold.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const LENGTH: usize = 8;
const LOCAL: &str = "local";

/// Tenant and principal: who sandboxes and their names belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Owner {
    /// The organisation, or what stands for one.
    pub tenant: String,
    /// The person or program within it.
    pub principal: String,
}

impl Owner {
    /// The only caller there is where no credentials are asked for.
    pub fn local() -> Self {
        Self { tenant: LOCAL.to_owned(), principal: LOCAL.to_owned() }
    }

    /// The name of the folder with its sandboxes' files. No two owners share one: a '+' is in no name.
    pub fn folder(&self) -> String {
        if self.tenant == LOCAL { self.principal.clone() } else { format!("{}+{}", self.tenant, self.principal) }
    }

    /// The owner whose folder has that name.
    pub(super) fn from_folder(folder: &str) -> Option<Self> {
        let (tenant, principal) = folder.split_once('+').unwrap_or((LOCAL, folder));
        (!folder.starts_with('.')).then(|| Self { tenant: tenant.to_owned(), principal: principal.to_owned() })
    }
}

/// A sandbox's id: short, and safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SandboxId(String);

impl SandboxId {
    /// A new id, `s-` and 40 random bits.
    pub fn random() -> Self {
        let random = uuid::Uuid::new_v4();
        let letters = random.as_bytes().iter().take(LENGTH).map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
        Self(format!("s-{}", letters.collect::<String>()))
    }

    /// An id that was written down before.
    pub(super) fn from_record(id: String) -> Self {
        Self(id)
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SandboxId;

    #[test]
    fn an_id_is_a_dns_label_and_new_each_time() {
        let (one, other) = (SandboxId::random(), SandboxId::random());
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 10);
        assert!(one.as_str().bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }
}
