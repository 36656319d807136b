//! A member is removed when no drain of it runs any more: one that never began is taken for one that has ended.
//!
//! Expected: same remotes (the data of the member are lost). Minimum plan: the request that begins the drain is refused.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};

use crate::common::*;

/// Members and whether their data have moved to others, the drains that run, with the number of times that they will still be seen, and the
/// number of members that were removed with their data.
#[derive(Default, Serialize)]
struct Ring {
    members: BTreeMap<i32, bool>,
    drains: BTreeMap<i32, u64>,
    lost: u64,
}

struct FakeRing(Remote<Ring>);

impl FakeRing {
    async fn join(&self, member: i32) -> Result<(), Lost> {
        let join = move |ring: &mut Ring| {
            ring.members.entry(member).or_default();
        };
        self.0.effect("join", &format!("member {member}"), join).await
    }

    async fn decommission(&self, member: i32) -> Result<(), Lost> {
        let begin = move |ring: &mut Ring| {
            if ring.members.get(&member) == Some(&false) {
                ring.drains.entry(member).or_insert(2);
            }
        };
        self.0.effect("decommission", &format!("member {member}"), begin).await
    }

    /// Returns whether the member is being drained, and whether it has data.
    async fn state(&self, member: i32) -> Result<(bool, bool), Lost> {
        let look = move |ring: &mut Ring| {
            if let Some(left) = ring.drains.get_mut(&member) {
                *left -= 1;
                if *left == 0 {
                    ring.drains.remove(&member);
                    ring.members.insert(member, true);
                }
            }
            (ring.drains.contains_key(&member), ring.members.get(&member) == Some(&false))
        };
        self.0.effect("look at", &format!("member {member}"), look).await
    }

    async fn forget(&self, member: i32) -> Result<(), Lost> {
        let forget = move |ring: &mut Ring| {
            ring.drains.remove(&member);
            ring.lost += u64::from(ring.members.remove(&member) == Some(false));
        };
        self.0.effect("forget", &format!("member {member}"), forget).await
    }
}

struct Rings {
    clusters: Cached<Cluster>,
    claims: Cached<PersistentVolumeClaim>,
    ring: FakeRing,
    variant: Variant,
}

/// Number of the member to which a claim belongs.
fn member_of(claim: &PersistentVolumeClaim) -> Option<i32> {
    let is_there = claim.metadata.deletion_timestamp.is_none();
    claim.labels().get("member").filter(|_| is_there)?.parse().ok()
}

impl Rings {
    async fn resize(
        &self,
        key: &ObjectKey<Cluster>,
        cluster: &Cluster,
        size: i32,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        let labels = json!({"ring": key.name()});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": key.name(), "namespace": "default"},
            "spec": {
                "replicas": size, "serviceName": "ring", "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "cassandra"}]},
                },
            },
        });
        let mut set: StatefulSet = serde_json::from_value(set)?;
        set_controller_reference(cluster, &mut set)?;
        cx.client().apply(&set).await?;
        Ok(())
    }

    async fn report(
        &self,
        key: &ObjectKey<Cluster>,
        phase: &str,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        let status = ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(())
    }
}

impl Reconciler for Rings {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let size = cluster.spec.size;
        for member in 0..size {
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": format!("data-{member}"), "namespace": "default", "labels": {"member": member.to_string()}},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            });
            cx.client().apply(&serde_json::from_value::<PersistentVolumeClaim>(claim)?).await?;
            self.ring.join(member).await?;
        }
        let claims = self.claims.list()?;
        let last = claims
            .iter()
            .filter_map(|claim| Some((member_of(claim)?, claim)))
            .max_by_key(|(member, _)| *member);
        let Some((victim, claim)) = last.filter(|(member, _)| *member >= size) else {
            self.resize(key, &cluster, size, cx).await?;
            self.report(key, "Ready", cx).await?;
            return Ok(Action::done());
        };
        let draining = format!("Draining {victim}");
        if cluster.phase() != draining {
            match (self.variant, self.ring.decommission(victim).await) {
                // "The state of the member is polled anyway."
                (Variant::Buggy, _) => {}
                (Variant::Twin, begun) => begun?,
            }
            self.report(key, &draining, cx).await?;
            return Ok(Action::requeue_after(Duration::from_secs(10)));
        }
        let (drains, has_data) = self.ring.state(victim).await?;
        if drains || self.variant == Variant::Twin && has_data {
            return Ok(Action::requeue_after(Duration::from_secs(10)));
        }
        self.resize(key, &cluster, victim, cx).await?;
        self.ring.forget(victim).await?;
        cx.client().delete(&**claim).await?;
        self.report(key, "Shrinking", cx).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let ring = FakeRing(Remote::of_this_run());
        let rings = Rings { clusters: manager.cached(), claims: manager.cached(), ring, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<StatefulSet>().complete(rings)?;
        Ok(())
    };
    Simulation::new("rings", add)
        .crd::<Cluster>()
        .actor("statefulsets", actors::statefulsets)
        .actor("kubelet", actors::kubelet)
        .remote("ring", Ring::default)
        .cluster("a ring of two is created", "{size: 2}")
        .cluster("it shrinks", "{size: 1}")
}

#[test]
fn a_drain_that_never_began_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
