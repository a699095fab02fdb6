//! The provider contract, for local processes.

use crate::harness::{Provider, keeps_the_contract, marked};

#[tokio::test]
async fn processes_keep_the_provider_contract() {
    let left = |data: &std::path::Path| marked(data).into_iter().map(|process| process.command).collect();
    keeps_the_contract(&Provider { variant: "process", arguments: Vec::new(), left: Box::new(left) }).await;
}
