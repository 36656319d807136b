//! No bug: a child that is missing is created again. When the user deletes a cluster, the garbage collector deletes the child, and the cache may
//! still contain the cluster. So the child rises from the dead, and the garbage collector deletes it again, until the cache has learned of the
//! deletion.

use crate::common::*;

struct Configs {
    clusters: Cached<Cluster>,
}

impl Reconciler for Configs {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let name = format!("{}-config", key.name());
        let mut child = map("default", &name, "version", &cluster.spec.version);
        set_controller_reference(&*cluster, &mut child)?;
        cx.client().apply(&child).await?;
        Ok(Action::done())
    }
}

fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let configs = Configs { clusters: manager.cached() };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(configs)?;
        Ok(())
    };
    Simulation::new("configs", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("it is edited", "{version: '2'}")
        .deletes_cluster("it is deleted")
}

#[test]
fn a_child_that_is_collected_again_is_no_finding() {
    let of_the_deletion = "clusters.further.dev DELETED default/db #1";
    for plan in [
        "hand over a second late: clusters.further.dev #1".to_owned(),
        format!("hold for a second, from {of_the_deletion}"),
        format!("hold for 2 reconciles, from {of_the_deletion}"),
    ] {
        let finding = simulation().replay(&plan).expect("a plan");
        assert!(finding.is_none(), "{}", finding.expect("a finding"));
    }
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation());
}
