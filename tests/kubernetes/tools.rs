//! All 22 tools, once each, through a pod.

use crate::harness::every_tool_answers;
use crate::yard::Yard;

#[tokio::test]
async fn every_tool_answers_through_a_pod() {
    let yard = Yard::start().await;
    every_tool_answers(&yard).await;
}
