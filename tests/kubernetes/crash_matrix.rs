//! kill -9 of the gateway at each step of launch and terminate: nothing is left over, and the list tells the truth.

use serde_json::json;

use crate::yard::Yard;

#[tokio::test]
async fn a_gateway_killed_at_a_step_of_a_launch_leaves_nothing_half_made() {
    for point in [
        "launch.intended",
        "launch.starting",
        "kubernetes.recorded",
        "kubernetes.created",
        "launch.started",
        "launch.ready",
        "launch.recorded",
    ] {
        let mut yard = Yard::start().await;
        let call = yard.held(point, "launch_sandbox", json!({"sandbox_name": "box"})).await;
        yard.gateway().kill();
        call.drop_connection();
        yard.kill_and_restart().await;
        let status = yard.truth(point).await;
        assert_eq!(status == "running", point == "launch.recorded", "{point}: {status}");
        yard.launch("box").await;
        assert!(yard.run("box", "print(6 * 7)").await.contains("42"), "{point}");
    }
}

#[tokio::test]
async fn a_gateway_killed_at_a_step_of_an_end_is_followed_by_one_that_ends_it() {
    for point in ["terminate.intended", "terminate.ended", "terminate.recorded"] {
        let mut yard = Yard::with_box().await;
        yard.run("box", "open('kept.txt', 'w').write('kept')").await;
        let call = yard.held(point, "terminate_sandbox", json!({"sandbox_name": "box"})).await;
        yard.gateway().kill();
        call.drop_connection();
        yard.kill_and_restart().await;
        assert_eq!(yard.truth(point).await, "terminated", "{point}");
        yard.launch("box").await;
        assert!(yard.run("box", "print(open('kept.txt').read())").await.contains("kept"), "{point}");
    }
}
