//! Whether the system ran out of memory.

/// How often it killed a process for want of memory since it booted; `None` where that isn't told (elsewhere than on
/// Linux).
pub(super) fn kills() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn parse(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_counter_is_found_among_its_like() {
        assert_eq!(parse("nr_free_pages 7\noom_kill 12\noom_kill_something 3\n"), Some(12));
        assert_eq!(parse("nr_free_pages 7\n"), None);
    }
}
