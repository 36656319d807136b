//! Objects of an old kind are migrated to a new one, and deleted. Until the old object is gone, each attempt writes its content into the new
//! object again, over what the user has changed there in the meantime.
//!
//! Expected: same objects. Minimum plan: a crash after the new object is created, with the restart after the user's edit.

use crate::common::*;

/// The new kind. The old one is `Cluster`.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Database", namespaced)]
#[serde(default)]
struct DatabaseSpec {
    size: i32,
}

struct Migration {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Migration {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let mut database = Database::new(key.name(), DatabaseSpec { size: cluster.spec.size });
        database.metadata.namespace = Some("default".to_owned());
        match self.variant {
            Variant::Buggy => drop(cx.client().apply(&database).await?),
            // An object that exists belongs to the user.
            Variant::Twin => drop(cx.client().create(&database).await.ignore_already_exists()?),
        }
        cx.client().delete(&*cluster).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let migration = Migration { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(migration)?;
        Ok(())
    };
    Simulation::new("migration", add)
        .crd::<Cluster>()
        .crd::<Database>()
        .cluster("there is an object of the old kind", "{size: 3}")
        .step("the new object grows", async |user| {
            user.merge_patch(&in_default::<Database>("db"), &json!({"spec": {"size": 5}})).await
        })
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
