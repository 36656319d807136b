//! A rotation increments a counter, and is recorded afterwards: repeated, it increments again.
//!
//! Expected: same objects. Minimum plan: a crash after the patch of the Secret, or its answer is lost.

use crate::common::*;

struct Rotations {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Rotations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let wanted = cluster.spec.size;
        if cluster.status().replicas == Some(wanted) {
            return Ok(Action::done());
        }
        let secret = in_default::<Secret>("root");
        let Some(current) = cx.client().get(&secret).await? else {
            return Err(ReconcileError::new("the Secret root does not exist yet"));
        };
        let annotation =
            |name: &str| current.annotations().get(name).and_then(|text| text.parse::<i32>().ok());
        let is_done = annotation("further.dev/rotated-for") == Some(wanted);
        if self.variant == Variant::Buggy || !is_done {
            let count = annotation("further.dev/rotations").unwrap_or_default() + 1;
            let mut annotations = json!({"further.dev/rotations": count.to_string()});
            if self.variant == Variant::Twin {
                annotations["further.dev/rotated-for"] = json!(wanted.to_string());
            }
            cx.client().merge_patch(&secret, &json!({"metadata": {"annotations": annotations}})).await?;
        }
        cx.client()
            .apply_status(key, &ClusterStatus { replicas: Some(wanted), ..ClusterStatus::default() })
            .await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rotations = Rotations { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(rotations)?;
        Ok(())
    };
    Simulation::new("rotations", add)
        .crd::<Cluster>()
        .applies("there is a secret", "{apiVersion: v1, kind: Secret, metadata: {name: root}}")
        .cluster("a rotation is asked for", "{size: 1}")
        .cluster("its version changes", "{size: 1, version: '15'}")
}

#[test]
fn a_rotation_that_counts_twice_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
