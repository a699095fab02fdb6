//! Paths of the Contents API: relative to the server's root, and never outside of it.

use std::fmt;

const MAX_SEGMENT_BYTES: usize = 255;
const MAX_BYTES: usize = 4096;

/// A file or directory below the server's root; empty for the root itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentsPath(String);

/// Why a text is no path below the server's root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// `..` goes above the root.
    #[error("The path '{0}' leaves the server's root directory: give a path inside it.")]
    OutsideRoot(String),
    /// NUL, a line break or another control character.
    #[error("The path holds a control character: give one without.")]
    ControlCharacter,
    /// A name in it is too long for a file system.
    #[error("A name in the path is longer than {MAX_SEGMENT_BYTES} bytes: give a shorter one.")]
    NameTooLong,
    /// The whole path is too long for a file system.
    #[error("The path is longer than {MAX_BYTES} bytes: give a shorter one.")]
    TooLong,
}

impl ContentsPath {
    /// Reads a path as callers write it: leading `/` and `.` are dropped, `..` is resolved.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_BYTES {
            return Err(PathError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PathError::ControlCharacter);
        }
        let mut names: Vec<&str> = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop().ok_or_else(|| PathError::OutsideRoot(text.to_owned()))?),
                name if name.len() > MAX_SEGMENT_BYTES => return Err(PathError::NameTooLong),
                name => names.push(name),
            }
        }
        Ok(Self(names.join("/")))
    }

    /// The path with `/` between its names, none in front.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The directory it is in; the root's is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0.rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned()))
    }

    /// Whether it is the server's root directory.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its names, outermost first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }
}

impl fmt::Display for ContentsPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_root() { "/" } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> String {
        ContentsPath::parse(text).unwrap().as_str().to_owned()
    }

    #[test]
    fn forms_of_one_path_are_one() {
        for text in
            ["a/b.ipynb", "/a/b.ipynb", "./a/b.ipynb", "a//b.ipynb/", "a/./b.ipynb", "a/c/../b.ipynb", "//a/b.ipynb"]
        {
            assert_eq!(parsed(text), "a/b.ipynb", "{text}");
        }
    }

    #[test]
    fn the_root_has_many_names() {
        for text in ["", "/", ".", "./", "a/.."] {
            assert!(ContentsPath::parse(text).unwrap().is_root(), "{text}");
        }
    }

    #[test]
    fn nothing_leaves_the_root() {
        for text in ["..", "../a", "/..", "a/../../b", "a/../..", "./../etc/passwd"] {
            assert!(matches!(ContentsPath::parse(text), Err(PathError::OutsideRoot(_))), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_dots_is_a_name() {
        for text in ["...", "..a", "%2e%2e", "a\\..\\b", " .. "] {
            assert_eq!(parsed(text), text);
        }
    }

    #[test]
    fn control_characters_are_refused() {
        for text in ["a\0b", "a\nb", "a\u{7f}", "a\u{85}b", "\u{1b}[31m"] {
            assert_eq!(ContentsPath::parse(text), Err(PathError::ControlCharacter), "{text:?}");
        }
    }

    #[test]
    fn lengths_are_limits_in_bytes() {
        assert!(ContentsPath::parse(&"é".repeat(127)).is_ok());
        assert_eq!(ContentsPath::parse(&"é".repeat(128)), Err(PathError::NameTooLong));
        assert_eq!(ContentsPath::parse(&"a/".repeat(2049)), Err(PathError::TooLong));
    }

    #[test]
    fn names_and_parents() {
        let path = ContentsPath::parse("a/b/c.ipynb").unwrap();
        assert_eq!((path.name(), path.parent().as_str()), ("c.ipynb", "a/b"));
        assert!(path.parent().parent().parent().is_root());
        assert_eq!(ContentsPath::default().name(), "");
        assert_eq!(ContentsPath::default().parent(), ContentsPath::default());
    }

    proptest! {
        #[test]
        fn a_parsed_path_stays_below_and_parses_to_itself(text in "[a./ %\\\\é]{0,40}") {
            if let Ok(path) = ContentsPath::parse(&text) {
                prop_assert!(path.names().all(|name| name != ".." && name != "." && !name.is_empty()));
                prop_assert_eq!(ContentsPath::parse(path.as_str()), Ok(path.clone()));
            }
        }
    }
}
