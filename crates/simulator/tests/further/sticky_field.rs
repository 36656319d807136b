//! A setting that is removed from the object stays in its child, because a merge patch only adds.
//!
//! Expected: same objects: the operator that never sees the setting ends in another world. Minimum plan: one state is skipped.

use crate::common::*;

struct Settings {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Settings {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let mut child = map("default", "db-config", "size", &cluster.spec.size.to_string());
        set_controller_reference(&*cluster, &mut child)?;
        let data = child.data.get_or_insert_default();
        if !cluster.spec.version.is_empty() {
            data.insert("version".to_owned(), cluster.spec.version.clone());
        }
        let child_key = in_default::<ConfigMap>("db-config");
        if self.variant == Variant::Buggy && cx.client().get(&child_key).await?.is_some() {
            cx.client().merge_patch(&child_key, &json!({"data": child.data})).await?;
        } else {
            cx.client().apply(&child).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let settings = Settings { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(settings)?;
        Ok(())
    };
    Simulation::new("settings", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{size: 1}")
        .cluster("its version is pinned", "{size: 1, version: '15'}")
        .cluster("it is unpinned", "{size: 1}")
}

#[test]
fn a_setting_that_stays_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
