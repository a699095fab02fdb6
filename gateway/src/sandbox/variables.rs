//! The environment variables that callers set.

use std::collections::BTreeMap;

use super::ProviderError;

/// What the sandbox itself decides.
const OWN: [&str; 3] = ["CELLGATE_", "JUPYTER_", "PYTHONHOME"];

/// Systems give a program no longer ones (Linux: 128 KiB with name and NUL).
const LONGEST: usize = 100_000;
/// Of all together programs get less than a quarter of their stack (Linux: 2 MiB with the arguments).
const LONGEST_IN_ALL: usize = 500_000;

/// Refuses variables that a caller can't set.
pub(super) fn check_variables(env: &BTreeMap<String, String>) -> Result<(), ProviderError> {
    let all: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if all > LONGEST_IN_ALL {
        let message = format!(
            "The variables in env are {all} bytes together, more than {LONGEST_IN_ALL}: write them to a file instead."
        );
        return Err(ProviderError::Invalid(message));
    }
    for (name, value) in env {
        let plain = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        if !plain || name.starts_with(|first: char| first.is_ascii_digit()) || value.contains('\0') {
            let name = name.escape_default();
            let message = format!("The variable '{name}' in env can't be set: use letters, digits and '_', no NUL.");
            return Err(ProviderError::Invalid(message));
        }
        if name.len() + value.len() > LONGEST {
            let message =
                format!("The variable '{name}' in env is longer than {LONGEST} bytes: write it to a file instead.");
            return Err(ProviderError::Invalid(message));
        }
        if OWN.iter().any(|own| name.starts_with(own)) {
            let message = format!("The variable '{name}' is set by the sandbox itself: leave it out of env.");
            return Err(ProviderError::Invalid(message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::check_variables;

    #[test]
    fn a_caller_sets_plain_variables_only() {
        let env = |name: &str| BTreeMap::from([(name.to_owned(), "x".to_owned())]);
        assert!(check_variables(&env("MODE")).is_ok());
        for name in ["", "A=B", "1A", "CELLGATE_SANDBOX", "JUPYTER_TOKEN", "A\0"] {
            assert!(check_variables(&env(name)).is_err(), "{name}");
        }
    }
}
