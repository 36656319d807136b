//! Children that are not in the inventory are pruned, and the inventory consists of the children that were applied just now. A child that
//! could not be applied is not among them, and is deleted with all that others have written into it.
//!
//! Expected: same objects. Minimum plan: the apply of a child that exists is refused once.

use std::collections::BTreeSet;

use crate::common::*;

struct Sets {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Sets {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let (mut inventory, mut failed) = (BTreeSet::new(), None);
        // The version of a cluster lists its parts.
        for part in cluster.spec.version.split(',') {
            let name = format!("{}-{part}", key.name());
            let mut child = map("default", &name, "size", &cluster.spec.size.to_string());
            set_controller_reference(&*cluster, &mut child)?;
            match cx.client().apply(&child).await {
                Ok(_) => {
                    inventory.insert(name);
                }
                // The other parts need not wait until this one can be written.
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() || self.variant == Variant::Buggy {
            for child in self.maps.owned_by(&*cluster)? {
                if !inventory.contains(&child.name_any()) {
                    cx.client().delete(&*child).any_version().await?;
                }
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Action::done()),
        }
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let sets = Sets { clusters: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(sets)?;
        Ok(())
    };
    Simulation::new("sets", add)
        .crd::<Cluster>()
        .cluster("a set of two parts is created", "{size: 1, version: 'a,b'}")
        .step("notes are written into a part", async |user| {
            user.merge_patch(&in_default::<ConfigMap>("db-b"), &json!({"data": {"notes": "remember"}})).await
        })
        .cluster("the other part is replaced", "{size: 2, version: 'b,c'}")
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
