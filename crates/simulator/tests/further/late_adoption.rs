//! Data without an owner are adopted by their cluster. When the user deletes the cluster but not its data, they lose their owner, and the
//! cache may still contain the cluster: it adopts them once more, and takes them with it.
//!
//! Expected: same objects. Minimum plan: the events of the Cluster are held back until that of its data has come.

use controller_runtime::{
    BoxError,
    client::{Patch, Propagation},
};

use crate::common::*;

struct Adopter {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Adopter {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let data_key = in_default::<ConfigMap>(&format!("{}-data", key.name()));
        let Some(data) = self.maps.get(&data_key)? else { return Ok(Action::done()) };
        if cluster.is_terminating() || !data.owner_references().is_empty() {
            return Ok(Action::done());
        }
        if self.variant == Variant::Twin {
            // A deletion that orphans the data is visible before they are orphaned.
            let now = cx.client().get(key).await?;
            if now.is_none_or(|now| now.is_terminating() || now.uid() != cluster.uid()) {
                return Ok(Action::done());
            }
        }
        let mut owned = (*data).clone();
        set_controller_reference(&*cluster, &mut owned)?;
        cx.client().patch(&data_key, Patch::between(&*data, &owned)).await.optional()?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let adopter = Adopter { clusters: manager.cached(), maps: manager.cached(), variant };
        let to_cluster =
            |map: &ConfigMap| map.labels().get("cluster").map(|name| in_default::<Cluster>(name));
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .watches(Kind::new(MapFn(to_cluster)))
            .complete(adopter)?;
        Ok(())
    };
    Simulation::new("adopter", add)
        .crd::<Cluster>()
        .applies(
            "there are data",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: db-data, labels: {cluster: db}}, data: {rows: '12'}}",
        )
        .cluster("a cluster is created", "{}")
        .step("it is deleted, and its data are to stay", async |user| {
            let data = user.get(&in_default::<ConfigMap>("db-data")).await?;
            if data.is_none_or(|data| data.owner_references().is_empty()) {
                return Err(BoxError::from("the cluster does not have its data yet"));
            }
            Ok(user.delete_key(&in_default::<Cluster>("db")).propagation(Propagation::Orphan).await?)
        })
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
