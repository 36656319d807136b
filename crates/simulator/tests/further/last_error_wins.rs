//! Several children are written in a loop, of whose errors only the last one is returned. The status then reports the generation as done.
//!
//! Expected: same objects. Minimum plan: the write of a child other than the last one is refused.

use crate::common::*;

struct Regions {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Regions {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let mut outcome = Ok(());
        for region in 0..cluster.spec.size {
            let mut settings =
                map("default", &format!("db-region-{region}"), "version", &cluster.spec.version);
            set_controller_reference(&*cluster, &mut settings)?;
            let written = cx.client().apply(&settings).await.map(drop);
            outcome = match self.variant {
                Variant::Buggy => written,
                Variant::Twin => outcome.and(written),
            };
        }
        outcome?;
        let status = ClusterStatus {
            version: Some(cluster.spec.version.clone()),
            replicas: Some(cluster.spec.size),
            ..ClusterStatus::default()
        };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let regions = Regions { clusters: manager.cached(), variant };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_predicate(GenerationChanged)
            .complete(regions)?;
        Ok(())
    };
    Simulation::new("regions", add)
        .crd::<Cluster>()
        .cluster("a cluster in three regions", "{size: 3, version: '1'}")
        .cluster("its version changes", "{size: 3, version: '2'}")
}

#[test]
fn a_region_that_was_skipped_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
