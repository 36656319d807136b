//! Members are drained before a ring shrinks. The phase in the status says that they are being drained, but not for which size. If the user
//! asks for an even smaller ring meanwhile, the operator also removes members that were not drained.
//!
//! Expected: the check. Minimum plan: the user shrinks the ring again before the phase is written.

use std::ops::Range;

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube_simulator::Now;

use crate::common::*;

const DRAIN: &str = "further.dev/drain";

/// State of the drain of a member: `requested` by the operator, `done` by the agent.
fn drain(pod: &Pod) -> Option<&str> {
    pod.annotations().get(DRAIN).map(String::as_str)
}

fn annotation(state: &str) -> serde_json::Value {
    json!({"metadata": {"annotations": {DRAIN: state}}})
}

/// Moves the data of members that are to be drained, as a program beside each of them does.
struct Agent(Cached<Pod>);

impl Reconciler for Agent {
    type Request = ObjectKey<Pod>;

    async fn reconcile(&self, key: &ObjectKey<Pod>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(pod) = self.0.get(key)? else { return Ok(Action::done()) };
        if drain(&pod) == Some("requested") {
            cx.client().merge_patch(key, &annotation("done")).await.optional()?;
        }
        Ok(Action::done())
    }
}

struct Rings {
    clusters: Cached<Cluster>,
    pods: Cached<Pod>,
    variant: Variant,
}

impl Rings {
    /// Requests the drains of these members, and returns whether all are done.
    async fn drain(&self, ring: &str, members: Range<i32>, cx: &Context) -> Result<bool, ReconcileError> {
        let mut all = true;
        for member in members {
            let key = in_default::<Pod>(&format!("{ring}-{member}"));
            // A member that does not exist yet is about to start, so it counts as not drained.
            let pod = cx.client().get(&key).await?;
            all &= pod.as_ref().and_then(drain) == Some("done");
            if pod.is_some_and(|pod| drain(&pod).is_none()) {
                cx.client().merge_patch(&key, &annotation("requested")).await.optional()?;
            }
        }
        Ok(all)
    }

    async fn resize(&self, cluster: &Cluster, cx: &Context) -> Result<(), ReconcileError> {
        let (name, labels) = (cluster.name_any(), json!({"ring": cluster.name_any()}));
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": cluster.spec.size, "serviceName": name, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "cassandra"}],
                    },
                },
            },
        });
        let mut set: StatefulSet = serde_json::from_value(set)?;
        set_controller_reference(cluster, &mut set)?;
        cx.client().apply(&set).await?;
        Ok(())
    }
}

impl Reconciler for Rings {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let status =
            |phase: &str| ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
        let set = cx.client().get(&in_default::<StatefulSet>(key.name())).await?;
        let members = set.and_then(|set| set.spec?.replicas).unwrap_or_default();
        if cluster.spec.size < members {
            let is_drained = match (self.variant, cluster.phase()) {
                // The drains were requested when the phase began.
                (Variant::Buggy, "Draining") => {
                    self.pods.list()?.iter().all(|pod| drain(pod) != Some("requested"))
                }
                _ => self.drain(key.name(), cluster.spec.size..members, cx).await?,
            };
            if !is_drained {
                cx.client().apply_status(key, &status("Draining")).await?;
                return Ok(Action::done()); // goes on when the members change
            }
        }
        self.resize(&cluster, cx).await?;
        cx.client().apply_status(key, &status("Ready")).await?;
        Ok(Action::done())
    }
}

/// Whether the members that the ring gives up are drained.
fn no_data_are_lost(now: &Now<'_>) -> bool {
    let sets = now.all::<StatefulSet>();
    let Some(size) = sets.first().and_then(|set| set.spec.as_ref()?.replicas) else { return true };
    now.all::<Pod>().iter().all(|pod| {
        let name = pod.name_any();
        let member = name.rsplit_once('-').and_then(|(_, member)| member.parse::<i32>().ok());
        member.is_none_or(|member| member < size) || drain(pod) == Some("done")
    })
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rings = Rings { clusters: manager.cached(), pods: manager.cached(), variant };
        let to_ring = |pod: &Pod| pod.labels().get("ring").map(|ring| in_default::<Cluster>(ring));
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .watches(Kind::new(MapFn(to_ring)))
            .complete(rings)?;
        Ok(())
    };
    let agent = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Pod>().named("agent").complete(Agent(manager.cached()))?;
        Ok(())
    };
    Simulation::new("rings", add)
        .crd::<Cluster>()
        .actor("statefulsets", actors::statefulsets)
        .actor("kubelet", actors::kubelet)
        .actor("agent", agent)
        .cluster("a ring of three is created", "{size: 3}")
        .cluster("it shrinks", "{size: 2}")
        .cluster("it shrinks again", "{size: 1}")
        .always("members that the ring gives up are drained", no_data_are_lost)
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
