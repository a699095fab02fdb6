//! Defaults that several tools' parameters share.

pub(super) fn yes() -> bool {
    true
}

/// Seconds between two progress reports.
pub(super) fn progress_interval() -> u64 {
    5
}
