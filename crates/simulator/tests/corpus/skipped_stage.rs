//! A state machine in the status: the stage is written after the deletion that ends it, and cannot be repeated.

use k8s_openapi::api::core::v1::Pod;

use crate::task::*;

struct Upgrades {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Upgrades {
    async fn phase(&self, key: &ObjectKey<Task>, phase: &str, cx: &Context) -> Result<(), ReconcileError> {
        let status = TaskStatus { phase: Some(phase.to_owned()), ..TaskStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(())
    }
}

impl Reconciler for Upgrades {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let pod_key = crate::task::key::<Pod>(key.name());
        match task.phase() {
            Some("Done") => {}
            Some("Finalizing") => {
                let claim = crate::task::key::<ConfigMap>(&format!("{}-claim", key.name()));
                cx.client().delete_key(&claim).await?;
                self.phase(key, "Done", cx).await?;
            }
            _ => {
                match (cx.client().get(&pod_key).await?, self.variant) {
                    (Some(pod), _) => drop(cx.client().delete(&pod).await?),
                    (None, Variant::Buggy) => return Err(ReconcileError::new("the pod is missing")),
                    (None, Variant::Twin) => {}
                }
                self.phase(key, "Finalizing", cx).await?;
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let upgrades = Upgrades { tasks: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(upgrades)?;
        Ok(())
    };
    Simulation::new("upgrades", add)
        .crd::<Task>()
        .applies(
            "there is a pod with a claim",
            "{apiVersion: v1, kind: Pod, metadata: {name: t}, spec: {containers: [{name: c, image: nginx}]}}\n---\n\
             {apiVersion: v1, kind: ConfigMap, metadata: {name: t-claim}}",
        )
        .task("an upgrade is asked for", "{}")
}

#[test]
fn a_crash_between_the_deletion_and_the_stage_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::Succeeds), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
