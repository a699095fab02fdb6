//! Named points at which a test can hold the gateway, to kill something just there. In a release build they
//! are nothing.

/// The directory by which a test holds the gateway: a file there that is named like a point is taken away once the point is
/// reached, and the gateway goes on when a file `<point>.go` is there.
pub const VARIABLE: &str = "CELLGATE_POINTS";

/// Tells a test that this point is reached, and waits until it says to go on.
#[cfg(debug_assertions)]
pub async fn reached(point: &str) {
    let Some(directory) = std::env::var_os(VARIABLE).map(std::path::PathBuf::from) else { return };
    if std::fs::remove_file(directory.join(point)).is_err() {
        return;
    }
    while !directory.join(format!("{point}.go")).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
#[allow(clippy::unused_async, reason = "the debug build waits here")]
pub async fn reached(_: &str) {}
