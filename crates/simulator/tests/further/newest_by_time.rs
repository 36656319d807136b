//! All but the newest configuration are deleted, by their time of creation, which has whole seconds.
//!
//! Expected: same objects. Minimum plan: two changes within a second.

use crate::common::*;

struct Configs {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Configs {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let current = format!("db-{}", cluster.spec.version);
        let mut config = map("default", &current, "version", &cluster.spec.version);
        set_controller_reference(&*cluster, &mut config)?;
        cx.client().apply(&config).await?;
        let mut configs = self.maps.owned_by(&*cluster)?;
        match self.variant {
            Variant::Buggy => {
                configs.sort_by_key(|config| config.creation_timestamp());
                configs.pop();
            }
            Variant::Twin => configs.retain(|config| config.name_any() != current),
        }
        for old in configs {
            cx.client().delete(&*old).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let configs = Configs { clusters: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(configs)?;
        Ok(())
    };
    Simulation::new("configs", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: 'red'}")
        .cluster("its version changes", "{version: 'blue'}")
}

#[test]
fn a_deletion_of_the_newest_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
