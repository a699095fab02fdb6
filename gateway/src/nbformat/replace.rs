//! Replacing a text in a source, literally, and explaining a text that isn't there.

use super::error::EditError;

/// Occurrences are not counted further than this.
const COUNTED: usize = 100;
/// A source that grows beyond this many bytes is a slip, not a notebook.
const LARGEST: usize = 64 << 20;

/// The source with `old` replaced. Without `all` it must occur once, overlaps counted.
pub(super) fn replaced(source: &str, old: &str, new: &str, all: bool) -> Result<String, EditError> {
    if old.is_empty() {
        let message =
            "old_string is empty: give the text to replace, or write the whole source with overwrite_cell_source.";
        return Err(EditError::Invalid(message.to_owned()));
    }
    match occurrences(source, old) {
        0 => return Err(EditError::NoMatch(unmatched(source, old))),
        1 => {}
        _ if all => {}
        count => return Err(EditError::AmbiguousMatch(ambiguous(count))),
    }
    let hits = source.matches(old).count();
    if source.len().saturating_add(hits.saturating_mul(new.len())) > LARGEST {
        let message =
            format!("Replacing {hits} occurrences would make the cell larger than 64 MiB; give a shorter new_string.");
        return Err(EditError::Invalid(message));
    }
    Ok(source.replace(old, new))
}

/// How often `old` stands in `source`, overlapping occurrences included; counted up to a limit.
fn occurrences(source: &str, old: &str) -> usize {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    let hits = std::iter::from_fn(|| {
        let hit = from + source.get(from..)?.find(old)?;
        from = hit + step;
        Some(hit)
    });
    hits.take(COUNTED).count()
}

fn ambiguous(count: usize) -> String {
    let count = if count < COUNTED { count.to_string() } else { format!("at least {COUNTED}") };
    format!(
        "old_string occurs {count} times in the cell, overlapping ones counted; \
         give more of its surroundings, or set replace_all to replace every one."
    )
}

fn unmatched(source: &str, old: &str) -> String {
    let unix = |text: &str| text.replace("\r\n", "\n");
    let hint = if source.contains("\r\n") != old.contains("\r\n") && unix(source).contains(&unix(old)) {
        "it does with other line ends (\\r\\n and \\n are told apart)"
    } else if !old.trim().is_empty() && source.contains(old.trim()) {
        "it does with other whitespace around it"
    } else {
        "it must match exactly, whitespace and line ends included"
    };
    format!("old_string does not occur in the cell: {hint}; read_cell shows the source.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &str, old: &str, new: &str) -> String {
        replaced(source, old, new, true).unwrap()
    }

    #[test]
    fn one_occurrence_is_replaced_literally() {
        assert_eq!(replaced("a $1.00 (net)\n", "$1.00 (net)", r"\1 $& \\d", false).unwrap(), "a \\1 $& \\\\d\n");
        assert!(matches!(replaced("a $1x00 (net)", "$1.00 (net)", "", false), Err(EditError::NoMatch(_))));
    }

    #[test]
    fn overlapping_occurrences_count_and_are_replaced_from_the_left() {
        let refused = replaced("ababa = 1", "aba", "Q", false).unwrap_err();
        assert!(matches!(&refused, EditError::AmbiguousMatch(message) if message.contains(" 2 times")), "{refused}");
        assert_eq!(all("ababa = 1", "aba", "Q"), "Qba = 1");
        assert!(matches!(replaced("ééé", "éé", "", false), Err(EditError::AmbiguousMatch(_))));
    }

    #[test]
    fn an_empty_text_is_refused() {
        assert!(matches!(replaced("", "", "x", true), Err(EditError::Invalid(_))));
        assert!(matches!(replaced("a", "", "x", false), Err(EditError::Invalid(_))));
    }

    #[test]
    fn a_text_that_is_not_there_is_answered_with_what_is_near() {
        let message = |source: &str, old: &str| replaced(source, old, "", false).unwrap_err().to_string();
        assert!(message("x = 1\r\ny = 2\r\n", "x = 1\ny").contains("line ends"));
        assert!(message("x = 1\ny = 2\n", "x = 1\r\ny").contains("line ends"));
        assert!(message("  total = i\n", "\ttotal = i").contains("other whitespace"));
        assert!(message("x", "zz").contains("exactly"));
    }

    #[test]
    fn nothing_grows_without_a_limit() {
        let (source, new) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
        assert!(matches!(replaced(&source, "a", &new, true), Err(EditError::Invalid(_))));
        let half = "a".repeat(1 << 19);
        let refused = replaced(&source, &half, "", false).unwrap_err();
        assert!(refused.to_string().contains("at least 100"), "{refused}");
    }
}
