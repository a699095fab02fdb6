//! The provider contract, for containers.

use crate::dock::{ENGINE, listed};
use crate::harness::{Provider, keeps_the_contract};

#[tokio::test]
async fn containers_keep_the_provider_contract() {
    let _engine = ENGINE.read().await;
    let left = |data: &std::path::Path| listed(data, &["ps", "--all", "--format", "{{.Names}}"]);
    keeps_the_contract(&Provider { variant: "docker", arguments: Vec::new(), left: Box::new(left) }).await;
}
