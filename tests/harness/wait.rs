//! Waiting for a condition, and saying what could not be tested.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Waits until `condition` holds; fails with `what` when it does not within `limit`.
pub(crate) async fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Says that a test could not do its work here: a failure under CI, else a line in the report of `tests/run`.
pub(crate) fn not_run(test: &str, reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test} has to run under CI: {reason}");
    eprintln!("not run: {test}: {reason}");
    if let Some(path) = std::env::var_os("CELLGATE_TEST_NOTES") {
        let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("the notes file opens");
        writeln!(notes, "{test}: {reason}").expect("the notes file takes a line");
    }
}
