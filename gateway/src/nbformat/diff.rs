//! What an edit changed, as a unified diff for people and models.

use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// How long the search for the shortest diff may take before a longer one has to do.
const PATIENCE: Duration = Duration::from_millis(300);

/// The unified diff of two sources, never empty when they differ; none when they don't.
pub(super) fn unified(old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + PATIENCE));
    let mut text = String::new();
    for hunk in group_diff_ops(steps, CONTEXT) {
        write_hunk(&mut text, &hunk, &old, &new);
    }
    Some(text)
}

/// Lines as the file has them. A carriage return is a part of its line, so that a change of line
/// ends alone is a change.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn write_hunk(text: &mut String, hunk: &[DiffOp], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
    let before = range(first.old_range().start..last.old_range().end);
    let after = range(first.new_range().start..last.new_range().end);
    let _ = writeln!(text, "@@ -{before} +{after} @@");
    for step in hunk {
        if step.tag() == DiffTag::Equal {
            write_lines(text, ' ', &old[step.old_range()]);
        } else {
            write_lines(text, '-', &old[step.old_range()]);
            write_lines(text, '+', &new[step.new_range()]);
        }
    }
}

fn write_lines(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(&line.strip_suffix('\n').unwrap_or(line).replace('\r', "\\r"));
        text.push('\n');
        if !line.ends_with('\n') {
            text.push_str("\\ No newline at end of cell\n");
        }
    }
}

/// A range of lines in the way of unified diffs: from 1, and the line before for an empty one.
fn range(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let diff = unified(old, &old.replace("5\n", "five\n")).unwrap();
        assert_eq!(diff, "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: String = (0..40).flat_map(|line| [line.to_string(), "\n".to_owned()]).collect();
        let new = old.replace("\n3\n", "\nthree\n").replace("\n33\n", "\n");
        assert_eq!(unified(&old, &new).unwrap().matches("@@ -").count(), 2);
    }

    #[test]
    fn a_change_of_line_ends_alone_shows() {
        let diff = unified("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n").unwrap();
        assert_eq!(diff, "@@ -1,2 +1,2 @@\n-x = 1\\r\n-y = 2\\r\n+x = 1\n+y = 2\n");
    }

    #[test]
    fn a_missing_last_newline_shows() {
        let diff = unified("z = 26", "z = 26\n").unwrap();
        assert_eq!(diff, "@@ -1 +1 @@\n-z = 26\n\\ No newline at end of cell\n+z = 26\n");
    }

    #[test]
    fn from_nothing_and_to_nothing() {
        assert_eq!(unified("", "a\n").unwrap(), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified("a\n", "").unwrap(), "@@ -1 +0,0 @@\n-a\n");
        assert_eq!(unified("same\r\n", "same\r\n"), None);
    }

    proptest! {
        #[test]
        fn a_change_always_shows(old in "[ab\r\n]{0,12}", new in "[ab\r\n]{0,12}") {
            let diff = unified(&old, &new);
            prop_assert_eq!(diff.is_none(), old == new);
            if let Some(diff) = diff {
                prop_assert!(diff.lines().any(|line| line.starts_with(['-', '+'])), "{}", diff);
                prop_assert!(!diff.contains('\r'));
            }
        }
    }
}
