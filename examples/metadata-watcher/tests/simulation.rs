//! Expiry of secrets under simulation: crashes and refused deletions.

use kube_simulator::{Explore, Simulation};

#[test]
fn an_expired_secret_is_deleted_once_in_spite_of_crashes_and_refusals() {
    Simulation::new("expiry", metadata_watcher::add_to)
        .step("two secrets are issued, one of which has expired", async |user| {
            user.apply_yaml(
                "{apiVersion: v1, kind: Secret, metadata: {name: old, annotations: {example.com/expires: \"2020-01-01T00:00:00Z\"}}}\n\
                 ---\n\
                 {apiVersion: v1, kind: Secret, metadata: {name: new, annotations: {example.com/expires: \"2999-01-01T00:00:00Z\"}}}",
            )
            .await
        })
        .explore(Explore::all());
}
