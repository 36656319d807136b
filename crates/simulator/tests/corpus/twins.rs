//! A child with a generated name is created again, because the answer was lost and the watch has not reported it yet.

use crate::task::*;

struct Tickets {
    tasks: Cached<Task>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Tickets {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let mut ticket = child(&task, &format!("{}-ticket", key.name()), "for", key.name())?;
        match self.variant {
            Variant::Buggy if self.maps.owned_by(&*task)?.is_empty() => {
                ticket.metadata.generate_name = ticket.metadata.name.take().map(|name| format!("{name}-"));
                cx.client().create(&ticket).await?;
            }
            Variant::Buggy => {}
            Variant::Twin => drop(cx.client().apply(&ticket).await?),
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let tickets = Tickets { tasks: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().owns::<ConfigMap>().complete(tickets)?;
        Ok(())
    };
    Simulation::new("tickets", add).crd::<Task>().task("a ticket is asked for", "{}")
}

#[test]
fn a_retry_before_the_news_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::lost_answers());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
