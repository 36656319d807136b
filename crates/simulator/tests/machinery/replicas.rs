//! Replicas of an operator: one of them acts at a time.

use std::time::Duration;

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
};
use k8s_openapi::api::core::v1::Namespace;
use kube_simulator::{Explore, Oracle, Simulation};

use super::map;

struct Maps(Cached<Namespace>);

impl Reconciler for Maps {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        if self.0.get(key)?.is_some() {
            cx.client().apply(&map(key.name())).await?;
        }
        Ok(Action::done())
    }
}

#[test]
fn replicas_without_leader_election_reconcile_one_object_at_once() {
    let simulation = Simulation::of("maps", |client| {
        let manager = Manager::new(client, ManagerOptions::new("maps"));
        let maps = Maps(manager.cached());
        Builder::managed_by(&manager).for_kind::<Namespace>().complete(maps).expect("a controller");
        manager
    });
    let simulation = simulation.replicas(2).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    });
    let finding = simulation.find(Explore::pauses().budget(Duration::from_secs(600))).expect("a finding");
    assert_eq!(finding.oracle(), Oracle::OneAtATime);
    assert!(finding.to_string().contains("two reconciles of "), "{finding}");
}
