//! Helm and kubectl, as `tests/run chart` says they are called.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Where the chart is.
pub(crate) fn chart() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts/cellgate")
}

/// Runs helm.
pub(crate) fn helm(arguments: &[&str]) -> Output {
    let program = std::env::var("CELLGATE_TEST_HELM").expect("tests/run chart says where helm is");
    Command::new(program).args(arguments).output().expect("helm runs")
}

/// Runs helm, which has to succeed; what it printed.
pub(crate) fn helm_ok(arguments: &[&str]) -> String {
    let ran = helm(arguments);
    assert!(ran.status.success(), "helm {arguments:?}: {}", said(&ran));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// All that a command printed.
pub(crate) fn said(ran: &Output) -> String {
    [&ran.stdout[..], &ran.stderr].map(String::from_utf8_lossy).concat()
}

/// Runs kubectl, which has to succeed; what it printed.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    let ran = kubectl_command().args(arguments).output().expect("kubectl runs");
    assert!(ran.status.success(), "kubectl {arguments:?}: {}", said(&ran));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

pub(crate) fn kubectl_command() -> Command {
    let words = std::env::var("CELLGATE_TEST_KUBECTL").expect("tests/run chart says how kubectl is called");
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// The chart's templates with these values, as YAML.
pub(crate) fn rendered(values: &[&str]) -> String {
    let chart = chart();
    let mut arguments =
        vec!["template", "x", chart.to_str().expect("text"), "--namespace", "gw", "--kube-version", "1.34.4"];
    // Two renderings make two keys.
    for value in ["masterKey.existingSecret=keys", "auth.existingSecret=auth"].iter().chain(values) {
        arguments.extend(["--set-json", value].into_iter().filter(|_| value.contains('{') || value.contains('[')));
        if !value.contains('{') && !value.contains('[') {
            arguments.extend(["--set", value]);
        }
    }
    helm_ok(&arguments)
}

/// The objects of a rendering, as the API server reads them (nothing is made).
pub(crate) fn objects(yaml: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, yaml).expect("it is written");
    let file = file.to_str().expect("text");
    let printed = kubectl(&["create", "--dry-run=client", "--validate=ignore", "-o", "json", "-f", file]);
    let stream = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
    stream
        .map(|object| object.expect("JSON"))
        .flat_map(|object| object["items"].as_array().cloned().unwrap_or_else(|| vec![object]))
        .collect()
}
