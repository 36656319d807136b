//! A child that is missing is created again. When the user deletes a cluster, the garbage collector deletes the child, and the cache may
//! still contain the cluster: the child rises from the dead, and the garbage collector has to delete it once more.
//!
//! Expected: quiet. Minimum plan: the events of the Cluster are held back, so that the two follow each other without end.

use crate::common::*;

struct Configs {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Configs {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)?.filter(|cluster| !cluster.is_terminating()) else {
            return Ok(Action::done());
        };
        let name = format!("{}-config", key.name());
        if self.maps.get(&in_default::<ConfigMap>(&name))?.is_some() {
            return Ok(Action::done());
        }
        if self.variant == Variant::Twin {
            // The garbage collector deletes a child only after its owner, so the API server knows whether this is a loss or an end.
            let now = cx.client().get(key).await?;
            if now.is_none_or(|now| now.is_terminating() || now.uid() != cluster.uid()) {
                return Ok(Action::done());
            }
        }
        let mut child = map("default", &name, "version", &cluster.spec.version);
        set_controller_reference(&*cluster, &mut child)?;
        cx.client().create(&child).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let configs = Configs { clusters: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(configs)?;
        Ok(())
    };
    Simulation::new("configs", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .deletes_cluster("it is deleted")
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Quiet, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
