//! All 22 tools, once each, through a container.

use crate::dock::Dock;
use crate::harness::every_tool_answers;

#[tokio::test]
async fn every_tool_answers_through_a_container() {
    let dock = Dock::start().await;
    every_tool_answers(&dock).await;
}
