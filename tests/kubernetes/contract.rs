//! The provider contract, for pods.

use crate::harness::{Provider, keeps_the_contract};
use crate::yard::{API, Namespace, own_arguments};

#[tokio::test]
async fn pods_keep_the_provider_contract() {
    let _api = API.read().await;
    let namespace = std::sync::Arc::new(Namespace::new());
    // The variant is named by the contract itself.
    let arguments = own_arguments(&namespace.name)[2..].iter().map(|&argument| argument.to_owned()).collect();
    let looked_at = std::sync::Arc::clone(&namespace);
    let left = Box::new(move |_: &std::path::Path| looked_at.left());
    keeps_the_contract(&Provider { variant: "kubernetes", arguments, left }).await;
}
