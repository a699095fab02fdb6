//! Secrets, masked wherever their exact bytes stand in an answer.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};

use super::Part;

/// What stands in a secret's place.
const MASK: &str = "[token]";

/// Below this many bytes, base64 may hold a secret's letters by chance.
const UNLIKELY: usize = 8;

/// Finds secrets in whatever an answer holds.
pub(super) struct Mask {
    secrets: Option<AhoCorasick>,
    unlikely: Option<AhoCorasick>,
}

impl Mask {
    /// A mask for these secrets; empty ones are no secrets.
    pub(super) fn new(secrets: &[String]) -> Self {
        let unlikely = secrets.iter().filter(|secret| secret.len() >= UNLIKELY);
        Self { secrets: finder(secrets.iter()), unlikely: finder(unlikely) }
    }

    /// Whether there is nothing to mask.
    pub(super) fn is_empty(&self) -> bool {
        self.secrets.is_none()
    }

    /// The text with its secrets masked.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(secrets) = &self.secrets else { return Cow::Borrowed(text) };
        if !secrets.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut from = 0;
        for found in secrets.find_iter(text) {
            masked.push_str(&text[from..found.start()]);
            masked.push_str(MASK);
            from = found.end();
        }
        masked.push_str(&text[from..]);
        Cow::Owned(masked)
    }

    /// Masks the text in place.
    pub(super) fn string(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }

    /// Masks every string and key of the value.
    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => self.map(map),
            _ => {}
        }
    }

    /// Masks every string and key of the map.
    pub(super) fn map(&self, map: &mut Map<String, Value>) {
        if self.is_empty() {
            return;
        }
        if map.keys().any(|key| matches!(self.text(key), Cow::Owned(_))) {
            *map = std::mem::take(map).into_iter().map(|(key, value)| (self.text(&key).into_owned(), value)).collect();
        }
        map.values_mut().for_each(|value| self.value(value));
    }

    /// Masks a part. An image can't be masked and stay whole: one that holds a secret is left out.
    pub(super) fn part(&self, part: &mut Part) {
        match part {
            Part::Text(text) => self.string(text),
            Part::Image { mime_type, data } => {
                self.string(mime_type);
                if self.unlikely.as_ref().is_some_and(|secrets| secrets.is_match(&*data)) {
                    *part = Part::Text(format!("[{mime_type}: left out, it holds a {MASK}]"));
                }
            }
        }
    }
}

fn finder<'a>(secrets: impl Iterator<Item = &'a String>) -> Option<AhoCorasick> {
    let secrets: Vec<_> = secrets.filter(|secret| !secret.is_empty()).collect();
    if secrets.is_empty() {
        return None;
    }
    let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(secrets);
    built.inspect_err(|error| tracing::error!(%error, "secrets can't be masked")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask() -> Mask {
        Mask::new(&["secret-1".to_owned(), String::new(), "secret-12".to_owned(), "ab".to_owned()])
    }

    #[test]
    fn the_longest_secret_is_masked_whole() {
        assert_eq!(mask().text("xsecret-12y, secret-1"), "x[token]y, [token]");
        assert!(matches!(mask().text("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn keys_and_nested_values_are_masked() {
        let mut value = json!({"secret-1": [{"url": "http://h/?token=secret-1"}], "n": 1});
        mask().value(&mut value);
        assert_eq!(value, json!({"[token]": [{"url": "http://h/?token=[token]"}], "n": 1}));
    }

    #[test]
    fn an_image_is_whole_or_left_out() {
        let image = |data: &str| Part::Image { mime_type: "image/png".into(), data: data.into() };
        let mut short = image("ababab");
        mask().part(&mut short);
        assert_eq!(short, image("ababab"), "short secrets are in base64 by chance");
        let mut long = image("AAsecret-1AA");
        mask().part(&mut long);
        assert_eq!(long, Part::Text("[image/png: left out, it holds a [token]]".into()));
    }
}
