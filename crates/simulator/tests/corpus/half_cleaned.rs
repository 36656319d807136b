//! An error of the second cleanup is logged and swallowed, and nothing comes back to try it again.

use std::collections::BTreeSet;

use kube_simulator::{Lost, Remote};
use serde::Serialize;

use crate::task::*;

const FINALIZER: &str = "corpus.dev/stack";

#[derive(Default, Serialize)]
struct Cloud {
    things: BTreeSet<String>,
}

struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    async fn create(&self, kind: &'static str) -> Result<(), Lost> {
        self.0.effect("create", kind, |cloud| cloud.things.insert(kind.to_owned())).await.map(|_| ())
    }

    async fn delete(&self, kind: &'static str) -> Result<(), Lost> {
        self.0.effect("delete", kind, |cloud| cloud.things.remove(kind)).await.map(|_| ())
    }
}

struct Stacks {
    tasks: Cached<Task>,
    cloud: FakeCloud,
    variant: Variant,
}

impl Reconciler for Stacks {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        if task.is_terminating() {
            if has_finalizer(&*task, FINALIZER) {
                self.cloud.delete("volume").await?;
                let deleted = self.cloud.delete("network").await;
                if self.variant == Variant::Buggy && deleted.is_err() {
                    return Ok(Action::done());
                }
                deleted?;
                cx.client().remove_finalizer(&*task, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*task, FINALIZER).await?;
        self.cloud.create("network").await?;
        self.cloud.create("volume").await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let stacks = Stacks { tasks: manager.cached(), cloud: FakeCloud(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(stacks)?;
        Ok(())
    };
    Simulation::new("stacks", add)
        .crd::<Task>()
        .remote("cloud", Cloud::default)
        .task("a stack is asked for", "{}")
        .deletes_task("it goes")
}

#[test]
fn a_refused_cleanup_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::refusals());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
