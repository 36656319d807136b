//! Members that are being created are noted in memory, so that none is created twice. A creation that fails stays noted.
//!
//! Expected: same objects. Minimum plan: one creation is refused.

use std::collections::BTreeSet;

use crate::common::*;

struct Members {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    creating: Mutex<BTreeSet<String>>,
    variant: Variant,
}

impl Reconciler for Members {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        for index in 0..cluster.spec.size {
            let name = format!("{}-{index}", key.name());
            if self.maps.get(&in_default::<ConfigMap>(&name))?.is_some() {
                self.creating.lock().remove(&name);
                continue;
            }
            if !self.creating.lock().insert(name.clone()) {
                continue; // it is on its way
            }
            let mut member = map("default", &name, "index", &index.to_string());
            set_controller_reference(&*cluster, &mut member)?;
            let created = cx.client().create(&member).await;
            if created.is_err() && self.variant == Variant::Twin {
                self.creating.lock().remove(&name);
            }
            match created {
                Err(error) if error.is_already_exists() => {}
                created => drop(created?),
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let members = Members {
            clusters: manager.cached(),
            maps: manager.cached(),
            creating: Mutex::default(),
            variant,
        };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(members)?;
        Ok(())
    };
    Simulation::new("members", add).crd::<Cluster>().cluster("a cluster is created", "{size: 2}")
}

#[test]
fn a_member_that_is_never_created_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
