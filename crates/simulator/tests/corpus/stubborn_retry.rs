//! After a conflict, an old object is written again in the new version, over another writer's change.

use kube::api::PostParams;

use crate::task::*;

struct Counters {
    tasks: Cached<Task>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Counters {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let api = Api::<ConfigMap>::namespaced(cx.client().kube().clone(), "default");
        let totals = self.maps.get(&crate::task::key("totals"))?;
        let Some(totals) = totals else { return Ok(Action::requeue_after(Duration::from_secs(1))) };
        let mut totals = (*totals).clone();
        let own = || (key.name().to_owned(), task.spec.size.to_string());
        for _ in 0..3 {
            totals.data.get_or_insert_default().extend([own()]);
            match api.replace("totals", &PostParams::default(), &totals).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let fresh = api.get("totals").await?;
                    match self.variant {
                        Variant::Buggy => totals.metadata.resource_version = fresh.metadata.resource_version,
                        Variant::Twin => totals = fresh,
                    }
                }
                written => {
                    written?;
                    return Ok(Action::done());
                }
            }
        }
        Err(ReconcileError::new("too many conflicts"))
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let counters = Counters { tasks: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(counters)?;
        Ok(())
    };
    Simulation::new("counters", add)
        .crd::<Task>()
        .applies("there are totals", "{apiVersion: v1, kind: ConfigMap, metadata: {name: totals}}")
        .task("a counter is asked for", "{size: 1}")
        .task("it counts", "{size: 2}")
        .step("the user adds a total", async |user| {
            user.merge_patch(&key::<ConfigMap>("totals"), &json!({"data": {"mine": "7"}})).await
        })
}

#[test]
fn a_change_between_read_and_write_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::early_steps());
    assert_eq!(finding.oracle(), Oracle::SameObjects);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
