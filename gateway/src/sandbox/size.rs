//! Sizes as people write them: `512Mi`, `1.5G`, `800000000`.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u64); 9] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1000),
    ("K", 1000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    /// Kubernetes' suffixes, with or without a `B` after them.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no size: write a number with a suffix, such as 512Mi or 2Gi");
        let bare = text.trim().trim_end_matches(['b', 'B']);
        let digits = bare.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        let unit = match bare[digits.len()..].trim() {
            "" => 1,
            unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes).ok_or_else(wrong)?,
        };
        let digits = digits.trim();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(wrong());
        }
        if let Ok(whole) = digits.parse::<u64>() {
            return whole.checked_mul(unit).map(Self).ok_or_else(wrong);
        }
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        #[expect(clippy::cast_precision_loss, reason = "a fraction of a unit needs no more precision")]
        let bytes = number * unit as f64;
        if !(0.0..1e18).contains(&bytes) {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and 10^18")]
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS[..4].iter().rev().find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes));
        match whole {
            Some((name, bytes)) => write!(formatter, "{}{name}", self.0 / bytes),
            None => write!(formatter, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn a_size_is_read_with_the_usual_suffixes() {
        let read = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(read("512Mi"), Ok(512 << 20));
        assert_eq!((read("1.5Gi"), read("2GB"), read("2 GiB")), (Ok(3 << 29), Ok(2_000_000_000), Ok(2 << 30)));
        assert_eq!(read("1048576"), Ok(1 << 20));
        for text in ["", "Mi", "-1Mi", "1m", "1Xi", "1e3", "nan", "1.2.3", "99999999999Ti", "1 2", "ä"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!((Size(2 << 30).to_string(), Size(1500).to_string()), ("2Gi".to_owned(), "1500".to_owned()));
    }
}
