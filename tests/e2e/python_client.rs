//! The Python SDK's client, which checks every answer against the advertised schema itself.

use std::path::Path;

use crate::harness::{Gateway, run_python};

fn drive(mode: &str) {
    let gateway = Gateway::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/python_client.py");
    let output = run_python(&script, [gateway.url(), mode]);
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("all done"), "{said}\n{complained}");
}

#[test]
fn the_python_client_drives_a_whole_session_in_its_own_mode() {
    drive("auto");
}

#[test]
fn the_python_client_drives_a_whole_session_in_the_older_era() {
    drive("legacy");
}
