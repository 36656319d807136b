//! A standby with an old view takes over, and repeats the deletion of an object's data, which belong to a new object by then.

use crate::task::*;

const FINALIZER: &str = "corpus.dev/data";

struct Databases {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Reconciler for Databases {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let data = crate::task::key::<ConfigMap>(&format!("{}-data", key.name()));
        let uid = task.uid().unwrap_or_default();
        let found = cx.client().get(&data).await?;
        let is_own = |map: &ConfigMap| map.labels().get("db").is_some_and(|db| *db == uid);
        if task.is_terminating() {
            match (self.variant, found) {
                (Variant::Buggy, _) => drop(cx.client().delete_key(&data).await?),
                (Variant::Twin, Some(found)) if is_own(&found) => drop(cx.client().delete(&found).await?),
                (Variant::Twin, _) => {}
            }
            cx.client().remove_finalizer(&*task, FINALIZER).await?;
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*task, FINALIZER).await?;
        if found.is_none() {
            let mut map = map(data.name());
            map.metadata.labels = Some([("db".to_owned(), uid)].into());
            cx.client().apply(&map).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let databases = Databases { tasks: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(databases)?;
        Ok(())
    };
    Simulation::new("databases", add)
        .crd::<Task>()
        .replicas(2)
        .task("a database is asked for", "{}")
        .step("it goes", async |user| {
            user.delete_key(&key::<Task>("t")).await?;
            match user.get(&key::<Task>("t")).await? {
                Some(_) => Err(controller_runtime::BoxError::from("it is not gone yet")),
                None => Ok(()),
            }
        })
        .task("another one is asked for", "{}")
        .step("it is filled", async |user| {
            user.merge_patch(&key::<ConfigMap>("t-data"), &json!({"data": {"rows": "1"}})).await
        })
}

#[test]
fn a_failover_to_an_old_view_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::failovers());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
