//! The token of a sandbox, which a test needs to look for it.

use std::path::Path;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The token of a sandbox, derived as the gateway does it: HMAC-SHA-256 of `token`, NUL, `id/1` with the master key.
pub(crate) fn sandbox_token(data: &Path, id: &str) -> String {
    let key = std::fs::read_to_string(data.join("master.key")).expect("the master key");
    let key: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).expect("hexadecimal digits")).collect();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(format!("token\0{id}/1").as_bytes());
    format!("{:x}", mac.finalize().into_bytes())
}
