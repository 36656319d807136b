//! A phase ends with a requeue that only the memory of the process holds: after a restart, nothing requeues the request.

use controller_runtime::predicate::GenerationChanged;

use crate::task::*;

/// Seconds that a task waits.
const PAUSE: i64 = 60;

struct Cooldowns {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Reconciler for Cooldowns {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let now = cx.wall_time().as_second();
        let began = task.status.as_ref().and_then(|status| status.seen).unwrap_or(now);
        let (phase, action) = match task.phase() {
            Some("Done") => return Ok(Action::done()),
            Some("Waiting") if now < began + PAUSE => {
                return Ok(match self.variant {
                    // "It was requeued when the phase began."
                    Variant::Buggy => Action::done(),
                    Variant::Twin => {
                        let left = u64::try_from(began + PAUSE - now)?;
                        Action::requeue_after(Duration::from_secs(left))
                    }
                });
            }
            Some("Waiting") => ("Done", Action::done()),
            _ => ("Waiting", Action::requeue_after(Duration::from_secs(PAUSE.unsigned_abs()))),
        };
        let status = TaskStatus { phase: Some(phase.to_owned()), seen: Some(began), ..TaskStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(action)
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let cooldowns = Cooldowns { tasks: manager.cached(), variant };
        // Its own writes of the status lead to no reconcile.
        Builder::managed_by(manager)
            .for_kind::<Task>()
            .with_predicate(GenerationChanged)
            .complete(cooldowns)?;
        Ok(())
    };
    // The time of the first write of the status is that of the process, and differs after a restart.
    Simulation::new("cooldowns", add)
        .crd::<Task>()
        .mask::<Task>("/status/seen")
        .task("a pause is asked for", "{}")
}

#[test]
fn a_requeue_that_a_crash_loses_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
