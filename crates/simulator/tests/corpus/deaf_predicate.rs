//! A predicate drops events of a status from which the operator computes its own.

use controller_runtime::{ForOwner, predicate::GenerationChanged};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube_simulator::actors;

use crate::task::*;

struct Fronts {
    tasks: Cached<Task>,
    deployments: Cached<Deployment>,
}

impl Reconciler for Fronts {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let labels = json!({"app": key.name()});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": key.name(), "namespace": "default"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
            },
        });
        let mut deployment: Deployment = serde_json::from_value(deployment)?;
        set_controller_reference(&*task, &mut deployment)?;
        // Around the client, as code that comes from kube-rs writes: the cache learns of it by its watch.
        let api = Api::<Deployment>::namespaced(cx.client().kube().clone(), "default");
        let params = PatchParams::apply("fronts").force();
        api.patch(key.name(), &params, &Patch::Apply(&deployment)).await?;
        let known = self.deployments.get(&crate::task::key(key.name()))?;
        let available = known.and_then(|known| known.status.as_ref()?.available_replicas);
        let status = TaskStatus { ready: Some(available == Some(1)), ..TaskStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let fronts = Fronts { tasks: manager.cached(), deployments: manager.cached() };
        let builder = Builder::managed_by(manager).for_kind::<Task>();
        match variant {
            Variant::Buggy => {
                let owned = Kind::<Deployment, _>::new(ForOwner::<Task>::controller());
                drop(builder.watches(owned.with_predicate(GenerationChanged)).complete(fronts)?);
            }
            Variant::Twin => drop(builder.owns::<Deployment>().complete(fronts)?),
        }
        Ok(())
    };
    Simulation::new("fronts", add)
        .crd::<Task>()
        .actor("deployments", actors::deployments)
        .task("a front is asked for", "{}")
}

#[test]
fn a_status_that_is_never_heard_of_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert_eq!(finding.oracle(), Oracle::SameObjects);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
