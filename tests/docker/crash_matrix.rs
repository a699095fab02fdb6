//! kill -9 of the gateway at each step of launch and terminate: nothing is left over, and the list tells the truth.

use serde_json::json;

use crate::dock::Dock;

#[tokio::test]
async fn a_gateway_killed_at_a_step_of_a_launch_leaves_nothing_half_made() {
    for point in [
        "launch.intended",
        "launch.starting",
        "docker.created",
        "docker.started",
        "docker.ruled",
        "launch.started",
        "launch.ready",
        "launch.recorded",
    ] {
        let mut dock = Dock::start().await;
        let call = dock.held(point, "launch_sandbox", json!({"sandbox_name": "box"})).await;
        dock.gateway().kill();
        call.drop_connection();
        dock.kill_and_restart().await;
        let status = dock.truth(point).await;
        assert_eq!(status == "running", point == "launch.recorded", "{point}: {status}");
        assert_eq!(dock.volumes().is_empty(), status != "running", "{point}: {:?}", dock.volumes());
        dock.launch("box").await;
        assert!(dock.run("box", "print(6 * 7)").await.contains("42"), "{point}");
        dock.terminate("box").await;
        assert!(dock.containers().is_empty(), "{point}: {:?}", dock.containers());
    }
}

#[tokio::test]
async fn a_gateway_killed_at_a_step_of_an_end_is_followed_by_one_that_ends_it() {
    for point in ["terminate.intended", "terminate.ended", "terminate.recorded"] {
        let mut dock = Dock::with_box().await;
        dock.run("box", "open('kept.txt', 'w').write('kept')").await;
        let call = dock.held(point, "terminate_sandbox", json!({"sandbox_name": "box"})).await;
        dock.gateway().kill();
        call.drop_connection();
        dock.kill_and_restart().await;
        assert_eq!(dock.truth(point).await, "terminated", "{point}");
        dock.launch("box").await;
        assert!(dock.run("box", "print(open('kept.txt').read())").await.contains("kept"), "{point}");
    }
}

#[tokio::test]
async fn a_launch_that_is_cancelled_while_the_engine_is_at_it_leaves_nothing() {
    let dock = Dock::start().await;
    let call = dock.held("docker.created", "launch_sandbox", json!({"sandbox_name": "box"})).await;
    call.cancel().await;
    assert_eq!(dock.truth("cancelled").await, "failed");
    assert!(dock.volumes().is_empty(), "{:?}", dock.volumes());
}
