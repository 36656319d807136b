//! The status has the time of the last reconcile, so each write causes the next one.

use crate::task::*;

struct Probes {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Reconciler for Probes {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let is_ready = task.status.as_ref().is_some_and(|status| status.ready == Some(true));
        if self.variant == Variant::Buggy || !is_ready {
            let seen = Some(cx.wall_time().as_second());
            let status = TaskStatus { ready: Some(true), seen, ..TaskStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let probes = Probes { tasks: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(probes)?;
        Ok(())
    };
    Simulation::new("probes", add).crd::<Task>().task("a probe is asked for", "{}")
}

#[test]
fn a_write_that_causes_the_next_one_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert_eq!(finding.oracle(), Oracle::Quiet);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
