//! After three failures in a row the operator gives up, although an outage ends by itself.
//!
//! Expected: same objects. Minimum plan: an outage, so that several requests in a row are refused.

use crate::common::*;

struct Clusters {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Clusters {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let status =
            |phase: &str| ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
        if matches!(cluster.phase(), "Ready" | "Failed") {
            return Ok(Action::done());
        }
        let mut child = map("default", "db-config", "version", &cluster.spec.version);
        set_controller_reference(&*cluster, &mut child)?;
        match cx.client().apply(&child).await {
            Ok(_) => drop(cx.client().apply_status(key, &status("Ready")).await?),
            Err(_) if cx.attempt() > 3 && self.variant == Variant::Buggy => {
                cx.client().apply_status(key, &status("Failed")).await?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let clusters = Clusters { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(clusters)?;
        Ok(())
    };
    Simulation::new("clusters", add).crd::<Cluster>().cluster("a cluster is created", "{version: '1'}")
}

#[test]
fn an_outage_after_which_nothing_is_tried_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
