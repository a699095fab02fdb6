//! The tokens of sandboxes, derived from one master key, so that none has to be stored.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hmac::{Hmac, Mac};
use secrecy::SecretString;
use sha2::Sha256;

const FILE: &str = "master.key";
const LENGTH: usize = 32;

/// The master key of a data directory.
pub(super) struct MasterKey([u8; LENGTH]);

impl MasterKey {
    /// The key in `data_dir`, made when it isn't there: readable by its owner only.
    pub(super) fn open(data_dir: &Path) -> std::io::Result<Self> {
        let file = data_dir.join(FILE);
        match Self::create(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Self::read(&file),
            created => created,
        }
    }

    fn create(file: &Path) -> std::io::Result<Self> {
        let mut key = [0; LENGTH];
        getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
        // Written beside its place and linked into it: another gateway sees the whole key or none.
        let draft = file.with_extension(format!("{}.new", std::process::id()));
        let mut writer =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        writer.write_all(&key)?;
        writer.sync_all()?;
        let linked = std::fs::hard_link(&draft, file);
        std::fs::remove_file(&draft)?;
        linked.map(|()| Self(key))
    }

    fn read(file: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(file)?;
        let key =
            bytes.try_into().map_err(|_| std::io::Error::other(format!("{} is not a master key", file.display())))?;
        Ok(Self(key))
    }

    /// The token of one generation of a sandbox.
    pub(super) fn token(&self, sandbox: &str, generation: u64) -> SecretString {
        SecretString::from(self.mac("token", &format!("{sandbox}/{generation}")))
    }

    /// What a request is remembered by: it tells nothing of the secrets in it.
    pub(super) fn digest(&self, request: &str) -> String {
        self.mac("request", request)
    }

    /// HMAC-SHA-256 (RFC 2104) in hexadecimal.
    fn mac(&self, purpose: &str, text: &str) -> String {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.0)
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::MasterKey;

    #[test]
    fn a_token_is_the_same_after_a_restart_and_another_for_each_generation() {
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::open(folder.path()).unwrap();
        let again = MasterKey::open(folder.path()).unwrap();
        let token = key.token("s-a", 1);
        assert_eq!(token.expose_secret(), again.token("s-a", 1).expose_secret());
        assert_ne!(token.expose_secret(), key.token("s-a", 2).expose_secret());
        assert_ne!(token.expose_secret(), key.token("s-b", 1).expose_secret());
        assert_ne!(token.expose_secret(), &key.digest("s-a/1"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
