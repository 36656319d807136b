//! Copies of secrets under simulation: crashes, namespaces and secrets that the operator sees late, and all other faults.

use controller_runtime::ObjectKey;
use k8s_openapi::api::core::v1::Secret;
use kube_simulator::{Explore, Simulation};
use secret_sync::SOURCE_NAMESPACE;
use serde_json::json;

#[test]
fn copies_survive_all_faults() {
    let secret = ObjectKey::<Secret>::new(SOURCE_NAMESPACE, "token");
    Simulation::new("secret-sync", secret_sync::add_to)
        .step("there is a vault", async |user| {
            user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: vault}}").await
        })
        .step("a team wants a secret", async |user| {
            user.apply_yaml(
                "{apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {example.com/wants-secret: token}}}",
            )
            .await
        })
        .step("the secret is issued", async |user| {
            user.apply_yaml(
                "{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: vault}, stringData: {key: one}}",
            )
            .await
        })
        .step("it changes", async move |user| {
            user.merge_patch(&secret, &json!({ "stringData": { "key": "two" } })).await
        })
        .explore(Explore::all());
}
