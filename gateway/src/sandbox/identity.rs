//! Whose a sandbox is, and what it is called.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The letters of ids: RFC 4648's base32 in lower case, which a DNS label may hold.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const LENGTH: usize = 8;
const LOCAL: &str = "local";
const LONGEST_NAME: usize = 64;

/// Tenant and principal: who sandboxes and their names belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The organisation, or what stands for one.
    pub tenant: String,
    /// The person or program within it.
    pub principal: String,
}

impl Owner {
    /// A principal of a tenant.
    ///
    /// # Errors
    /// When a name is not 1 to 64 of lower-case letters, digits, `.`, `_`, `-` and `@`, or begins with a sign.
    pub fn new(tenant: &str, principal: &str) -> Result<Self, String> {
        check_name("tenant", tenant)?;
        check_name("principal", principal)?;
        Ok(Self { tenant: tenant.to_owned(), principal: principal.to_owned() })
    }

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
        Self::new(tenant, principal).ok()
    }
}

/// The name itself is not repeated: what stands in its place may be a secret.
fn check_name(of: &str, name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-@".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
    if starts_well && name.len() <= LONGEST_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "name the {of} with 1 to {LONGEST_NAME} of lower-case letters, digits, '.', '_', '-' and '@', a letter or a digit first"
    ))
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

    /// Whether a text has the form of an id.
    pub(super) fn is_like(text: &str) -> bool {
        text.strip_prefix("s-")
            .is_some_and(|rest| rest.len() == LENGTH && rest.bytes().all(|byte| LETTERS.contains(&byte)))
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
    use super::{Owner, SandboxId};

    #[test]
    fn a_name_that_could_leave_its_folder_or_pass_for_another_is_refused() {
        for name in ["a", "0", "alice", "alice@example.com", "a.b_c-d", &"x".repeat(64)] {
            assert!(Owner::new(name, name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".a", "-a", "@a", "Alice", "a+b", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(Owner::new(name, "a").unwrap_err().contains("tenant"), "{name}");
            assert!(Owner::new("a", name).unwrap_err().contains("principal"), "{name}");
        }
    }

    #[test]
    fn no_two_owners_share_a_folder() {
        let folder = |tenant, principal| Owner::new(tenant, principal).unwrap().folder();
        assert_eq!(Owner::local().folder(), "local");
        assert_eq!(folder("local", "alice"), "alice");
        assert_eq!(folder("acme", "alice"), "acme+alice");
        assert_eq!(Owner::from_folder("acme+alice"), Owner::new("acme", "alice").ok());
        assert_eq!(Owner::from_folder("local"), Some(Owner::local()));
        assert_eq!(Owner::from_folder(".pruned-1"), None);
        assert_ne!(folder("a.b", "c"), folder("a", "b.c"));
        assert_ne!(folder("acme", "acme"), folder("local", "acme"));
    }

    #[test]
    fn an_id_is_a_dns_label_and_new_each_time() {
        let (one, other) = (SandboxId::random(), SandboxId::random());
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 10);
        assert!(one.as_str().bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }
}
