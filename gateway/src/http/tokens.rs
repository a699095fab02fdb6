//! Whose each token is: one token of the settings, or a file that is read again when it changes.
//!
//! Tokens are known by their SHA-256 alone. A change that can't be taken leaves the earlier tokens valid.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::sandbox::Owner;

/// The tokens that callers may show, and whose they are.
pub struct Tokens {
    file: Option<TokensFile>,
    held: Mutex<Held>,
}

/// How many principals a tokens file may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principals {
    /// One: the sandboxes can't be kept apart from each other.
    One,
    /// As many as there are.
    Many,
}

type Entries = BTreeMap<[u8; 32], Owner>;

struct TokensFile {
    path: PathBuf,
    principals: Principals,
}

/// What was read last, and what was said of it.
#[derive(Default)]
struct Held {
    entries: Entries,
    seen: Option<Stamp>,
    told: Option<String>,
}

/// What differs when a file was changed or another was put in its place.
#[derive(PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    written: (i64, i64),
    // It also tells of a file that became readable, or whose time was set back.
    changed: (i64, i64),
}

impl Tokens {
    /// One token, which makes its caller the local owner.
    pub fn single(token: &SecretString) -> Self {
        let entries = Entries::from([(digest(token.expose_secret()), Owner::local())]);
        Self { file: None, held: Mutex::new(Held { entries, ..Held::default() }) }
    }

    /// The tokens of a file with lines of `tenant principal sha256-of-the-token`.
    ///
    /// # Errors
    /// When it can't be read, has an error in it, names nobody, or names more principals than it may.
    pub fn open(path: PathBuf, principals: Principals) -> Result<Self, String> {
        let file = TokensFile { path, principals };
        let mut held = Held::default();
        file.reread(&mut held)?;
        if held.entries.is_empty() {
            return Err(file.wrong("it names nobody: add a line 'tenant principal sha256-of-the-token'"));
        }
        Ok(Self { file: Some(file), held: Mutex::new(held) })
    }

    /// The owner of `token`. Every entry is compared in constant time, so the time taken tells nothing of it.
    pub(super) fn owner(&self, token: &str) -> Option<Owner> {
        let shown = digest(token);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = self.file.as_ref().map(|file| file.reread(&mut held)) {
            held.tell(error);
        }
        let compared = held.entries.iter().map(|(digest, owner)| (bool::from(digest.ct_eq(&shown)), owner));
        compared.fold(None, |found, (equal, owner)| if equal { Some(owner) } else { found }).cloned()
    }
}

impl TokensFile {
    /// Reads the file anew if it is another than the one seen last. One that can't be read is tried again.
    fn reread(&self, held: &mut Held) -> Result<(), String> {
        let stamp = Stamp::of(&self.path).map_err(|error| self.unreadable(&error))?;
        if held.seen.as_ref() == Some(&stamp) {
            return Ok(());
        }
        let bytes = std::fs::read(&self.path).map_err(|error| self.unreadable(&error))?;
        held.seen = Some(stamp);
        held.told = None;
        if bytes.trim_ascii().is_empty() {
            // As an editor leaves it for a moment.
            return Err(self.wrong("it is empty: add a line for each token, or a comment to let nobody in"));
        }
        let entries = parsed(&String::from_utf8_lossy(&bytes)).map_err(|error| self.wrong(&error))?;
        self.check_principals(&entries)?;
        tracing::info!(tokens = entries.len(), "tokens file read");
        held.entries = entries;
        Ok(())
    }

    fn check_principals(&self, entries: &Entries) -> Result<(), String> {
        let owners: BTreeSet<&Owner> = entries.values().collect();
        if self.principals == Principals::Many || owners.len() <= 1 {
            return Ok(());
        }
        Err(self.wrong(
            "it names more than one principal, and variant 'process' doesn't isolate them from each other: choose another --variant, or say --allow-unisolated",
        ))
    }

    fn unreadable(&self, error: &std::io::Error) -> String {
        self.wrong(&format!("it can't be read, so put a readable file there ({error})"))
    }

    fn wrong(&self, what: &str) -> String {
        format!("the tokens file {}: {what}", self.path.display())
    }
}

impl Held {
    /// Logs and counts an error once, however many requests meet it.
    fn tell(&mut self, error: String) {
        if self.told.as_ref() == Some(&error) {
            return;
        }
        tracing::error!(%error, "the tokens file is not taken; the earlier tokens stay valid");
        metrics::counter!("cellgate_tokens_errors_total").increment(1);
        self.told = Some(error);
    }
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            // Reading a pipe could wait for ever.
            return Err(std::io::Error::other("not a regular file"));
        }
        Ok(Self {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// The entries of a file's text. Errors name the line and never repeat it: it may hold a token.
fn parsed(text: &str) -> Result<Entries, String> {
    let mut entries = Entries::new();
    for (index, line) in text.lines().enumerate() {
        let at = |error: String| format!("line {}: {error}", index + 1);
        let Some((digest, owner)) = entry(line).map_err(at)? else { continue };
        let before = entries.insert(digest, owner.clone());
        if before.is_some_and(|before| before != owner) {
            return Err(at("an earlier line gives this token to another principal: make a token for each".to_owned()));
        }
    }
    Ok(entries)
}

/// The entry of a line; none in one that is blank or a comment.
fn entry(line: &str) -> Result<Option<([u8; 32], Owner)>, String> {
    let fields: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
    match fields[..] {
        [] => Ok(None),
        [tenant, principal, hash] => Ok(Some((read_hash(hash)?, Owner::new(tenant, principal)?))),
        _ => Err(format!("write 'tenant principal sha256-of-the-token', three words and not {}", fields.len())),
    }
}

fn read_hash(text: &str) -> Result<[u8; 32], String> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text, &mut hash)
        .map_err(|_| "write the token's SHA-256 as 64 hexadecimal digits (printf %s TOKEN | sha256sum)")?;
    if hash == digest("") {
        return Err("this is the SHA-256 of an empty token: write that of the token".to_owned());
    }
    Ok(hash)
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests;
