//! A finalizer is removed although the deletion for which it stands has failed.

use crate::task::*;

const FINALIZER: &str = "corpus.dev/data";

struct Stores {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Reconciler for Stores {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let data = format!("{}-data", key.name());
        if task.is_terminating() {
            if has_finalizer(&*task, FINALIZER) {
                let deleted = cx.client().delete_key(&crate::task::key::<ConfigMap>(&data)).await;
                match (self.variant, deleted) {
                    // "The object is going anyway."
                    (Variant::Buggy, _) => {}
                    (Variant::Twin, deleted) => drop(deleted?),
                }
                cx.client().remove_finalizer(&*task, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*task, FINALIZER).await?;
        // Without an owner, because the data may be in another namespace.
        cx.client().apply(&map(&data)).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let stores = Stores { tasks: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(stores)?;
        Ok(())
    };
    Simulation::new("stores", add).crd::<Task>().task("a store is asked for", "{}").deletes_task("it goes")
}

#[test]
fn data_that_a_refused_deletion_leaves_behind_are_found() {
    let finding = find(simulation(Variant::Buggy), Explore::refusals());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
