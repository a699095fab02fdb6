//! What a sandbox may be called.

use super::{FleetError, SandboxId};

const LONGEST: usize = 100;

/// Refuses what can't be a sandbox's name: it is a folder's name as well, and `host:port` for an attached server.
pub(super) fn check_name(name: &str) -> Result<(), FleetError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    // A name that is another's id would stand for two sandboxes.
    if starts_well && name.len() <= LONGEST && name.bytes().all(plain) && !SandboxId::is_like(name) {
        return Ok(());
    }
    Err(FleetError::BadName(name.chars().take(LONGEST).collect()))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_never_leaves_its_folder() {
        for name in ["main", "a.b-c_d", "127.0.0.1:8888", "[::1]:8888"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "s-abcdefg2", ".", "..", "../x", "a/b", "a\\b", "-x", "a\0", "ä", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
