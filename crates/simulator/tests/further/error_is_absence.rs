//! A ConfigMap that cannot be read counts as absent, and is created with its defaults, over the user's changes.
//!
//! Expected: same objects. Minimum plan: a read is refused.

use crate::common::*;

struct Settings {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Settings {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let read = cx.client().get(&in_default::<ConfigMap>("db-settings")).await;
        let settings = match self.variant {
            Variant::Buggy => read.ok().flatten(),
            Variant::Twin => read?,
        };
        if settings.is_none() {
            let mut settings = map("default", "db-settings", "memory", "1Gi");
            set_controller_reference(&*cluster, &mut settings)?;
            cx.client().apply(&settings).await?;
        }
        let status =
            ClusterStatus { version: Some(cluster.spec.version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let settings = Settings { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(settings)?;
        Ok(())
    };
    Simulation::new("settings", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .step("the user changes its settings", async |user| {
            user.merge_patch(&in_default::<ConfigMap>("db-settings"), &json!({"data": {"memory": "2Gi"}}))
                .await
        })
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn settings_that_are_overwritten_are_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
