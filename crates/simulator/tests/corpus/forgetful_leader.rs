//! The next step of a plan is kept in memory, which a new leader does not have.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::task::*;

struct Canaries {
    tasks: Cached<Task>,
    steps: Mutex<BTreeMap<String, i32>>,
    variant: Variant,
}

impl Reconciler for Canaries {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        if task.phase() == Some("Done") {
            return Ok(Action::done());
        }
        let recorded = task.status.as_ref().and_then(|status| status.step).unwrap_or_default();
        let step = match self.variant {
            Variant::Buggy => self.steps.lock().get(key.name()).copied().unwrap_or_default(),
            Variant::Twin => recorded,
        };
        let (done, name) = (step >= task.spec.size, format!("{}-step{step}", key.name()));
        if !done {
            let mut job = child(&task, &name, "step", &step.to_string())?;
            match self.variant {
                Variant::Buggy => {
                    (job.metadata.generate_name, job.metadata.name) = (Some(format!("{name}-")), None);
                    cx.client().create(&job).await?;
                    self.steps.lock().insert(key.name().to_owned(), step + 1);
                }
                Variant::Twin => drop(cx.client().apply(&job).await?),
            }
        }
        let phase = done.then(|| "Done".to_owned());
        let status = TaskStatus { phase, step: Some(step + i32::from(!done)), ..TaskStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(if done { Action::done() } else { Action::requeue_after(Duration::from_secs(30)) })
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let canaries = Canaries { tasks: manager.cached(), steps: Mutex::default(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(canaries)?;
        Ok(())
    };
    Simulation::new("canaries", add).crd::<Task>().replicas(2).task("a canary with two steps", "{size: 2}")
}

#[test]
fn a_new_leader_without_memory_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn a_lease_that_is_lost_at_a_write_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::failovers());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
