//! The member to remove is chosen from a list in which the leader has not moved yet.

use crate::task::*;

struct Rings {
    tasks: Cached<Task>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Rings {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let mut members = self.maps.list()?;
        members.retain(|map| map.labels().contains_key("ring"));
        members.sort_by_key(|map| map.name_any());
        let size = usize::try_from(task.spec.size).unwrap_or_default();
        if task.phase().is_none() {
            for index in 0..size {
                let mut member = map(&format!("{}-{index}", key.name()));
                member.metadata.labels = Some([("ring".to_owned(), key.name().to_owned())].into());
                set_controller_reference(&*task, &mut member)?;
                cx.client().apply(&member).await?;
            }
            let formed = TaskStatus { phase: Some("Formed".to_owned()), ..TaskStatus::default() };
            cx.client().apply_status(key, &formed).await?;
            return Ok(Action::done());
        }
        let leads = |map: &ConfigMap| map.annotations().contains_key("leader");
        let victims: Vec<_> = members.iter().rev().filter(|map| !leads(map)).collect();
        for victim in victims.into_iter().take(members.len().saturating_sub(size)) {
            match self.variant {
                Variant::Buggy => {
                    cx.client().delete_key(&crate::task::key::<ConfigMap>(&victim.name_any())).await?;
                }
                Variant::Twin => drop(cx.client().delete(&**victim).await?),
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rings = Rings { tasks: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(rings)?;
        Ok(())
    };
    Simulation::new("rings", add)
        .crd::<Task>()
        .task("a ring of three", "{size: 3}")
        .step("the last member leads", async |user| {
            let leads = json!({"metadata": {"annotations": {"leader": "yes"}}});
            user.merge_patch(&key::<ConfigMap>("t-2"), &leads).await
        })
        .task("it shrinks", "{size: 2}")
}

#[test]
fn a_leader_that_is_seen_too_late_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
