//! The master keys of a data directory: tokens of sandboxes are derived from them, so that none has to be
//! stored, and callers' secrets are sealed with them before they are.
//!
//! The first key of the ring is used for what is new. Older ones stay for what was made with them, so
//! the key can be changed while sandboxes run.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hmac::{Hmac, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use secrecy::SecretString;
use sha2::Sha256;

const FILE: &str = "master.key";
const LENGTH: usize = 32;
const NONCE: usize = 12;
/// Letters of a key's id.
const ID: usize = 8;

/// The master keys of a data directory, newest first. The file has one in hexadecimal a line.
pub(super) struct KeyRing {
    file: PathBuf,
    keys: Mutex<Vec<Arc<Key>>>,
}

/// One master key.
pub(super) struct Key {
    id: String,
    secret: [u8; LENGTH],
}

impl KeyRing {
    /// The ring in `file`, else in `data_dir`, where a first key is made when there is none.
    pub(super) fn open(data_dir: &Path, file: Option<&Path>) -> io::Result<Self> {
        let own = data_dir.join(FILE);
        if file.is_none() && !own.exists() {
            make_first(&own)?;
        }
        let ring = Self { file: file.map_or(own, Path::to_owned), keys: Mutex::default() };
        ring.read()?;
        Ok(ring)
    }

    /// Where they are.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The key for what is new.
    pub(super) fn newest(&self) -> io::Result<Arc<Key>> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.first().cloned().ok_or_else(|| no_keys(&self.file))
    }

    /// The key of that id; the oldest one for what was made before keys had ids. Another gateway may have added it
    /// meanwhile, so one that isn't known is looked for in the file.
    pub(super) fn key(&self, id: &str) -> Option<Arc<Key>> {
        self.known(id).or_else(|| {
            self.read().ok()?;
            self.known(id)
        })
    }

    fn known(&self, id: &str) -> Option<Arc<Key>> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if id.is_empty() { keys.last().cloned() } else { keys.iter().find(|key| key.id == id).cloned() }
    }

    /// Makes a new key, which is used for what is new from the next start on. Answers its id.
    pub(super) fn rotate(&self) -> io::Result<String> {
        self.read()?;
        let key = Key::random()?;
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let text: String = std::iter::once(key.line()).chain(keys.iter().map(|key| key.line())).collect();
        let draft = draft(&self.file, &text)?;
        std::fs::rename(draft, &self.file)?;
        Ok(key.id)
    }

    fn read(&self) -> io::Result<()> {
        let fault = |error: io::Error| {
            io::Error::new(error.kind(), format!("the master keys in {} can't be read: {error}", self.file.display()))
        };
        let bytes = std::fs::read(&self.file).map_err(fault)?;
        let keys = parse(&bytes).ok_or_else(|| no_keys(&self.file))?;
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // What this gateway used before it goes on using, whatever became of the file.
        let gone: Vec<Arc<Key>> = known.iter().filter(|old| keys.iter().all(|key| key.id != old.id)).cloned().collect();
        *known = keys.into_iter().map(Arc::new).chain(gone).collect();
        Ok(())
    }
}

impl Key {
    fn new(secret: [u8; LENGTH]) -> Self {
        let mut key = Self { id: String::new(), secret };
        key.id = hex::encode(key.mac("id", "")).chars().take(ID).collect();
        key
    }

    fn random() -> io::Result<Self> {
        let mut secret = [0; LENGTH];
        fill(&mut secret)?;
        Ok(Self::new(secret))
    }

    /// What records name it by; it tells nothing of the key.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The token of one generation of a sandbox.
    pub(super) fn token(&self, sandbox: &str, generation: u64) -> SecretString {
        SecretString::from(hex::encode(self.mac("token", &format!("{sandbox}/{generation}"))))
    }

    /// What a request is remembered by: it tells nothing of the secrets in it.
    pub(super) fn digest(&self, request: &str) -> String {
        hex::encode(self.mac("request", request))
    }

    /// Seals a secret of `owner`, a sandbox's id: it can't be opened as another's.
    pub(super) fn seal(&self, owner: &str, secret: &str) -> io::Result<Vec<u8>> {
        let mut nonce = [0; NONCE];
        fill(&mut nonce)?;
        let mut sealed = secret.as_bytes().to_vec();
        self.sealing()
            .and_then(|key| {
                key.seal_in_place_append_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(owner.as_bytes()),
                    &mut sealed,
                )
            })
            .map_err(|_| io::Error::other("a secret can't be sealed"))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what this key sealed for `owner`; `None` for anything else.
    pub(super) fn open(&self, owner: &str, sealed: &[u8]) -> Option<SecretString> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.sealing().ok()?.open_in_place(nonce, Aad::from(owner.as_bytes()), &mut sealed).ok()?;
        std::str::from_utf8(opened).ok().map(SecretString::from)
    }

    fn sealing(&self) -> Result<LessSafeKey, ring::error::Unspecified> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.mac("seal", "")).map(LessSafeKey::new)
    }

    /// HMAC-SHA-256 (RFC 2104): one key for each purpose.
    fn mac(&self, purpose: &str, text: &str) -> [u8; LENGTH] {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret)
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn line(&self) -> String {
        hex::encode(self.secret) + "\n"
    }
}

/// Keys in hexadecimal, one a line, or the 32 bytes that the first version wrote.
fn parse(bytes: &[u8]) -> Option<Vec<Key>> {
    if let Ok(secret) = <[u8; LENGTH]>::try_from(bytes) {
        return Some(vec![Key::new(secret)]);
    }
    let lines = std::str::from_utf8(bytes).ok()?.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Option<Vec<Key>> = lines.map(|line| Some(Key::new(secret(line)?))).collect();
    keys.filter(|keys| !keys.is_empty())
}

fn secret(line: &str) -> Option<[u8; LENGTH]> {
    let mut secret = [0; LENGTH];
    hex::decode_to_slice(line, &mut secret).ok().map(|()| secret)
}

fn no_keys(file: &Path) -> io::Error {
    io::Error::other(format!("{} holds no master keys: one of 64 hexadecimal digits a line", file.display()))
}

fn make_first(file: &Path) -> io::Result<()> {
    // Written beside its place and linked into it: another gateway sees the whole key or none.
    let draft = draft(file, &Key::random()?.line())?;
    let linked = std::fs::hard_link(&draft, file);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// A file beside `file` that only its owner can read.
fn draft(file: &Path, text: &str) -> io::Result<PathBuf> {
    let draft = file.with_extension(format!("{}.new", std::process::id()));
    let mut writer = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writer.write_all(text.as_bytes())?;
    writer.sync_all()?;
    Ok(draft)
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::{FILE, KeyRing};

    fn ring(folder: &tempfile::TempDir) -> KeyRing {
        KeyRing::open(folder.path(), None).unwrap()
    }

    #[test]
    fn a_token_is_the_same_after_a_restart_and_another_for_each_generation() {
        let folder = tempfile::tempdir().unwrap();
        let (key, again) = (ring(&folder).newest().unwrap(), ring(&folder).newest().unwrap());
        let token = key.token("s-a", 1);
        assert_eq!(token.expose_secret(), again.token("s-a", 1).expose_secret());
        assert_ne!(token.expose_secret(), key.token("s-a", 2).expose_secret());
        assert_ne!(token.expose_secret(), key.token("s-b", 1).expose_secret());
        assert_ne!(token.expose_secret(), &key.digest("s-a/1"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn after_a_change_of_the_key_the_old_one_still_opens_what_it_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let before = ring(&folder);
        let old = before.newest().unwrap();
        let sealed = old.seal("s-a", "secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        let id = ring(&folder).rotate().unwrap();
        let after = ring(&folder);
        assert_eq!(after.newest().unwrap().id(), id);
        let opened = |owner: &str, sealed: &[u8]| after.key(old.id())?.open(owner, sealed);
        assert_eq!(opened("s-a", &sealed).unwrap().expose_secret(), "secret");
        assert!(opened("s-b", &sealed).is_none() && opened("s-a", b"short").is_none());
        assert!(after.newest().unwrap().open("s-a", &sealed).is_none());
        // A gateway that runs meanwhile comes to know the new key when it meets it.
        assert!(before.key(&id).is_some() && before.key("unknown").is_none());
    }

    #[test]
    fn the_key_of_the_first_version_is_read_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), [7; 32]).unwrap();
        let old = ring(&folder).newest().unwrap();
        ring(&folder).rotate().unwrap();
        let oldest = ring(&folder).key("").unwrap();
        assert_eq!(oldest.id(), old.id());
        std::fs::write(folder.path().join(FILE), "no key").unwrap();
        assert!(KeyRing::open(folder.path(), None).is_err());
    }
}
