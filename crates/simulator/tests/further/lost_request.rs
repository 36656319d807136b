//! The user asks for a restart with an annotation, and the operator removes the annotation after the restart, without a precondition. If
//! the user changes the annotation during the restart, the operator removes the new request as well, and never handles it.
//!
//! Expected: same objects. Minimum plan: the user asks again before the annotation is removed.

use controller_runtime::client::Patch;

use crate::common::*;

const REQUEST: &str = "further.dev/restart";

struct Restarts {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Restarts {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let Some(request) = cluster.annotations().get(REQUEST) else { return Ok(Action::done()) };
        let mut restart = map("default", &format!("{}-restart", key.name()), "request", request);
        set_controller_reference(&*cluster, &mut restart)?;
        cx.client().apply(&restart).await?;
        let mut answered = Patch::merge(&json!({"metadata": {"annotations": {REQUEST: null}}}));
        if self.variant == Variant::Twin {
            // Only the request that was read: after another one this is a conflict, and the retry reads the other one.
            answered = answered.with_version_of(&*cluster);
        }
        cx.client().patch(key, answered).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let restarts = Restarts { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(restarts)?;
        Ok(())
    };
    Simulation::new("restarts", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{}")
        .step("a restart is asked for", async |user| {
            let request = json!({"metadata": {"annotations": {REQUEST: "monday"}}});
            user.merge_patch(&in_default::<Cluster>("db"), &request).await
        })
        .step("another one is asked for", async |user| {
            let request = json!({"metadata": {"annotations": {REQUEST: "friday"}}});
            user.merge_patch(&in_default::<Cluster>("db"), &request).await
        })
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
