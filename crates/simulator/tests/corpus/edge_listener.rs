//! The claim of a removed member is deleted only while its pod is seen terminating. A watch may never show that.

use k8s_openapi::api::core::v1::Pod;
use kube_simulator::actors;

use crate::task::*;

struct Pools {
    tasks: Cached<Task>,
    pods: Cached<Pod>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

fn claim(pool: &str, index: i32) -> String {
    format!("{pool}-{index}-claim")
}

fn index(name: &str) -> Option<i32> {
    name.split('-').nth(1)?.parse().ok()
}

impl Reconciler for Pools {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let labels = json!({"pool": key.name()});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": key.name(), "namespace": "default"},
            "spec": {
                "replicas": task.spec.size, "serviceName": "pool", "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "nginx"}],
                }},
            },
        });
        let set: k8s_openapi::api::apps::v1::StatefulSet = serde_json::from_value(set)?;
        cx.client().apply(&set).await?;
        for member in 0..task.spec.size {
            cx.client().apply(&map(&claim(key.name(), member))).await?;
        }
        let is_removed = |name: &str| index(name).is_some_and(|index| index >= task.spec.size);
        match self.variant {
            Variant::Buggy => {
                for pod in self.pods.list()? {
                    if is_removed(&pod.name_any()) && pod.metadata.deletion_timestamp.is_some() {
                        let name = format!("{}-claim", pod.name_any());
                        cx.client().delete_key(&crate::task::key::<ConfigMap>(&name)).await?;
                    }
                }
            }
            Variant::Twin => {
                for map in self.maps.list()? {
                    let name = map.name_any();
                    let pod = name.trim_end_matches("-claim");
                    let is_claim = name.ends_with("-claim") && is_removed(&name);
                    if is_claim && self.pods.get(&crate::task::key(pod))?.is_none() {
                        cx.client().delete(&*map).await?;
                    }
                }
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let pools =
            Pools { tasks: manager.cached(), pods: manager.cached(), maps: manager.cached(), variant };
        let to_pool = |pod: &Pod| pod.labels().get("pool").map(|pool| key::<Task>(pool));
        Builder::managed_by(manager).for_kind::<Task>().watches(Kind::new(MapFn(to_pool))).complete(pools)?;
        Ok(())
    };
    Simulation::new("pools", add)
        .crd::<Task>()
        .actor("statefulsets", actors::statefulsets)
        .actor("kubelet", actors::kubelet)
        .task("a pool of two", "{size: 2}")
        .task("it shrinks", "{size: 1}")
}

#[test]
fn a_deletion_that_is_never_seen_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::unobserved());
    assert_eq!(finding.oracle(), Oracle::SameObjects);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
