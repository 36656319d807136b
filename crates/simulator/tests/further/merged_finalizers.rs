//! A finalizer is added with a merge patch, which replaces the list: one that another program adds meanwhile is lost.
//!
//! Expected: trespass or same objects. Minimum plan: the next step begins before the patch.

use crate::common::*;

const FINALIZER: &str = "further.dev/cleanup";

struct Clusters {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Clusters {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.is_terminating() {
            cx.client().delete_key(&in_default::<ConfigMap>("db-data")).await?;
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        if !has_finalizer(&*cluster, FINALIZER) {
            match self.variant {
                Variant::Buggy => {
                    let mut finalizers = cluster.finalizers().to_vec();
                    finalizers.push(FINALIZER.to_owned());
                    cx.client().merge_patch(key, &json!({"metadata": {"finalizers": finalizers}})).await?;
                }
                Variant::Twin => drop(cx.client().add_finalizer(&*cluster, FINALIZER).await?),
            }
        }
        cx.client().apply(&map("default", "db-data", "size", &cluster.spec.size.to_string())).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let clusters = Clusters { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(clusters)?;
        Ok(())
    };
    Simulation::new("clusters", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{size: 1}")
        .applies(
            "a backup protects it",
            "{apiVersion: further.dev/v1, kind: Cluster, metadata: {name: db, finalizers: [backup.dev/keep]}, spec: {size: 1}}",
        )
}

#[test]
fn a_finalizer_of_another_program_that_is_dropped_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::Trespass), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
