//! Times as listings show them.

/// `YYYY-mm-dd HH:MM:SS`, UTC; a text that is no RFC 3339 time stays as it is.
pub(super) fn shown(timestamp: &str) -> String {
    match timestamp.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => timestamp.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_time_is_shown_to_the_second_in_utc() {
        assert_eq!(super::shown("2026-01-02T03:04:05.678Z"), "2026-01-02 03:04:05");
        assert_eq!(super::shown("2026-01-02T03:04:05+02:00"), "2026-01-02 01:04:05");
        assert_eq!(super::shown("never"), "never");
    }
}
