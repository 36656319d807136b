//! A new object takes over the claim of the one before, which is being deleted and then vanishes.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube_simulator::actors;

use crate::task::*;

const FINALIZER: &str = "corpus.dev/db";

struct Databases {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Reconciler for Databases {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let (pod_key, claim_key) = (
            crate::task::key::<Pod>(&format!("{}-0", key.name())),
            crate::task::key::<PersistentVolumeClaim>(&format!("{}-data", key.name())),
        );
        if task.is_terminating() {
            cx.client().delete_key(&claim_key).await?;
            cx.client().delete_key(&pod_key).await?;
            let is_left =
                cx.client().get(&claim_key).await?.is_some() || cx.client().get(&pod_key).await?.is_some();
            if self.variant == Variant::Twin && is_left {
                return Ok(Action::requeue_after(Duration::from_secs(5)));
            }
            cx.client().remove_finalizer(&*task, FINALIZER).await?;
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*task, FINALIZER).await?;
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim_key.name(), "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let claim: PersistentVolumeClaim = serde_json::from_value(claim)?;
        cx.client().apply(&claim).await?;
        if cx.client().get(&pod_key).await?.is_none() {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_key.name(), "namespace": "default"},
                "spec": {
                    "containers": [{"name": "c", "image": "postgres"}],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_key.name()}}],
                },
            });
            let mut pod: Pod = serde_json::from_value(pod)?;
            set_controller_reference(&*task, &mut pod)?;
            cx.client().create(&pod).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let databases = Databases { tasks: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().owns::<Pod>().complete(databases)?;
        Ok(())
    };
    let create = "{apiVersion: corpus.dev/v1, kind: Task, metadata: {name: t}, spec: {}}";
    Simulation::new("databases", add)
        .crd::<Task>()
        .actor("kubelet", actors::kubelet)
        .applies("a database is asked for", create)
        .deletes_task("it goes")
        .step("another one is asked for", async move |user| match user.get(&key::<Task>("t")).await? {
            Some(task) if task.is_terminating() => {
                Err(controller_runtime::BoxError::from("the name is not free yet"))
            }
            _ => user.apply_yaml(create).await,
        })
}

#[test]
fn a_claim_that_is_taken_over_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::early_steps());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}

/// The step needs an operator that has received the watch events, so a hold must end long before the step is given up.
#[test]
fn a_hold_ends_before_a_step_that_waits_for_the_operator_is_given_up() {
    let plan = "hold for 1 reconcile, from tasks.corpus.dev MODIFIED default/t #2";
    let finding = simulation(Variant::Twin).replay(plan).expect("a plan");
    assert!(finding.is_none(), "{}", finding.expect("one"));
}
