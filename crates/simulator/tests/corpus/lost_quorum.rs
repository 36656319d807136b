//! A rolling update trusts readiness that is out of date, and takes a second member down.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::api::DeleteParams;
use kube_simulator::{Now, actors};

use crate::task::*;

struct Quorums {
    tasks: Cached<Task>,
    pods: Cached<Pod>,
    /// Number of members that were taken down: the next one is another one.
    turn: AtomicUsize,
    variant: Variant,
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    pod.metadata.deletion_timestamp.is_none() && ready.is_some_and(|ready| ready.status == "True")
}

impl Reconciler for Quorums {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let labels = json!({"quorum": key.name()});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": key.name(), "namespace": "default"},
            "spec": {
                "replicas": 3, "serviceName": "quorum", "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": {"quorum": key.name(), "version": task.spec.text}},
                    "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "etcd"}]},
                },
            },
        });
        let set: StatefulSet = serde_json::from_value(set)?;
        cx.client().apply(&set).await?;
        let mut pods = self.pods.list()?;
        pods.retain(|pod| pod.labels().contains_key("quorum"));
        if pods.len() < 3 || !pods.iter().all(|pod| is_ready(pod)) {
            return Ok(Action::done());
        }
        let is_old = |pod: &Pod| pod.labels().get("version") != Some(&task.spec.text);
        let old: Vec<_> = pods.iter().filter(|pod| is_old(pod)).collect();
        if !old.is_empty() {
            let old = old[self.turn.fetch_add(1, Ordering::Relaxed) % old.len()];
            match self.variant {
                Variant::Buggy => {
                    let api = Api::<Pod>::namespaced(cx.client().kube().clone(), "default");
                    api.delete(&old.name_any(), &DeleteParams::default()).await?;
                }
                Variant::Twin => {
                    // An object that the cache does not know yet must not be overlooked.
                    for pod in &pods {
                        let now = cx.client().get(&crate::task::key::<Pod>(&pod.name_any())).await?;
                        if !now.is_some_and(|now| is_ready(&now)) {
                            return Ok(Action::requeue_after(Duration::from_secs(1)));
                        }
                    }
                    cx.client().delete(&**old).await?;
                }
            }
        }
        Ok(Action::done())
    }
}

fn two_of_three_are_ready(now: &Now<'_>) -> bool {
    let (sets, pods) = (now.all::<StatefulSet>(), now.all::<Pod>());
    let has_started = sets.iter().any(|set| set.annotations().contains_key("started"));
    !has_started || pods.iter().filter(|pod| is_ready(pod)).count() >= 2
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let quorums =
            Quorums { tasks: manager.cached(), pods: manager.cached(), turn: AtomicUsize::new(0), variant };
        let to_task = |pod: &Pod| pod.labels().get("quorum").map(|name| key::<Task>(name));
        Builder::managed_by(manager)
            .for_kind::<Task>()
            .watches(Kind::new(MapFn(to_task)))
            .complete(quorums)?;
        Ok(())
    };
    Simulation::new("quorums", add)
        .crd::<Task>()
        .actor("statefulsets", actors::statefulsets)
        .actor("kubelet", actors::kubelet)
        .task("a quorum is asked for", "{text: one}")
        .step("it has started", async |user| {
            let pods = user.list::<Pod>().await?;
            if pods.items.iter().filter(|pod| is_ready(pod)).count() < 3 {
                return Err(controller_runtime::BoxError::from("not yet"));
            }
            let started = json!({"metadata": {"annotations": {"started": "yes"}}});
            Ok(user.merge_patch(&key::<StatefulSet>("t"), &started).await?)
        })
        .task("a new version is asked for", "{text: two}")
        .step("it is annotated", async |user| {
            user.merge_patch(&key::<Task>("t"), &json!({"metadata": {"annotations": {"a": "b"}}})).await
        })
        .always("two of three members are ready", two_of_three_are_ready)
}

#[test]
fn readiness_that_is_out_of_date_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::early_steps());
    assert_eq!(finding.oracle(), Oracle::Check);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
