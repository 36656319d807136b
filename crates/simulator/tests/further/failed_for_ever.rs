//! Any error ends in the phase `Failed`, which nothing leaves, although the error was a refusal that passes.
//!
//! Expected: same objects. Minimum plan: one write is refused.

use crate::common::*;

struct Clusters {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Clusters {
    async fn provision(&self, cluster: &Cluster, cx: &Context) -> Result<(), ReconcileError> {
        for part in ["config", "scripts"] {
            let mut child = map("default", &format!("db-{part}"), "version", &cluster.spec.version);
            set_controller_reference(cluster, &mut child)?;
            cx.client().apply(&child).await?;
        }
        Ok(())
    }
}

impl Reconciler for Clusters {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let status = |phase: &str, message: Option<String>| ClusterStatus {
            phase: Some(phase.to_owned()),
            message,
            ..ClusterStatus::default()
        };
        match cluster.phase() {
            "Ready" | "Failed" => {}
            _ => match (self.provision(&cluster, cx).await, self.variant) {
                (Ok(()), _) => drop(cx.client().apply_status(key, &status("Ready", None)).await?),
                (Err(error), Variant::Buggy) => {
                    cx.client().apply_status(key, &status("Failed", Some(error.to_string()))).await?;
                }
                (Err(error), Variant::Twin) => return Err(error),
            },
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
fn a_refusal_that_is_final_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
