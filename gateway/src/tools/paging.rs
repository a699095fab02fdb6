//! Pages of a longer list.

/// The part of `items` that a page shows; a limit of 0 is all.
pub(super) fn of<T>(items: &[T], start: u64, limit: u64) -> &[T] {
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(items.len());
    let rest = &items[start..];
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 && limit < rest.len() => &rest[..limit],
        _ => rest,
    }
}

/// "Showing 0-24 of 48; the rest with start_index 25", when a page isn't all there is.
pub(super) fn note(shown: usize, start: u64, total: usize) -> Option<String> {
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    if shown == total {
        return None;
    }
    if shown == 0 {
        return Some(format!("start_index {start} is past the end: there are {total}."));
    }
    let end = start + shown;
    let rest = if end < total { format!("; the rest with start_index {end}") } else { String::new() };
    Some(format!("Showing {start}-{} of {total}{rest}.", end - 1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn pages_join_without_gap_or_overlap() {
        let items: Vec<usize> = (0..48).collect();
        let mut seen = Vec::new();
        while seen.len() < items.len() {
            seen.extend_from_slice(super::of(&items, seen.len() as u64, 20));
        }
        assert_eq!(seen, items);
        assert_eq!(super::of(&items, 10, 0).len(), 38);
        assert!(super::of(&items, 99, 5).is_empty());
        assert_eq!(super::note(25, 0, 48).unwrap(), "Showing 0-24 of 48; the rest with start_index 25.");
        assert_eq!(super::note(48, 0, 48), None);
    }
}
