//! Two operators, each right alone, set one field to two values in turn, forever.

use k8s_openapi::api::apps::v1::Deployment;

use crate::task::*;

fn deployment(name: &str, replicas: Option<i32>) -> Result<Deployment, ReconcileError> {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
        },
    });
    if let Some(replicas) = replicas {
        deployment["spec"]["replicas"] = json!(replicas);
    }
    Ok(serde_json::from_value(deployment)?)
}

struct Shops {
    tasks: Cached<Task>,
    deployments: Cached<Deployment>,
    variant: Variant,
}

impl Reconciler for Shops {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let known = self.deployments.get(&crate::task::key(key.name()))?;
        let is_scaled = known.is_some_and(|known| known.labels().contains_key("scaled"));
        let replicas = (self.variant == Variant::Buggy || !is_scaled).then_some(task.spec.size);
        cx.client().apply(&deployment(key.name(), replicas)?).await?;
        Ok(Action::done())
    }
}

struct Scaler(Cached<Deployment>);

impl Reconciler for Scaler {
    type Request = ObjectKey<Deployment>;

    async fn reconcile(&self, key: &ObjectKey<Deployment>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(known) = self.0.get(key)? else { return Ok(Action::done()) };
        if known.labels().contains_key("scaled") {
            cx.client().merge_patch(key, &json!({"spec": {"replicas": 5}})).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let shops = Shops { tasks: manager.cached(), deployments: manager.cached(), variant };
        let to_shop = |deployment: &Deployment| Some(key::<Task>(&deployment.name_any()));
        Builder::managed_by(manager).for_kind::<Task>().watches(Kind::new(MapFn(to_shop))).complete(shops)?;
        Ok(())
    };
    let scaler = |manager: &Manager| -> Result<(), AddError> {
        let scaler = Scaler(manager.cached());
        Builder::managed_by(manager).for_kind::<Deployment>().named("scaler").complete(scaler)?;
        Ok(())
    };
    Simulation::new("shops", add)
        .crd::<Task>()
        .also("scaler", scaler)
        .task("a shop is asked for", "{size: 2}")
        .step("it is to be scaled", async |user| {
            let label = json!({"metadata": {"labels": {"scaled": "true"}}});
            user.merge_patch(&key::<Deployment>("t"), &label).await
        })
}

#[test]
fn a_fight_over_a_field_is_found_without_faults() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::Quiet);
    assert!(finding.to_string().contains(".spec.replicas"), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
