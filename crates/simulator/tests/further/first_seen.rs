//! Of two clusters with the same host, the first one serves it, and the other one waits. First is the one that is reconciled first: an
//! operator that starts when both exist sees them in the order of their names, not in that of their creation.
//!
//! Expected: same objects. Minimum plan: a crash before the first cluster is reported as serving, with the restart after the next step.

use controller_runtime::controller::ControllerOptions;

use crate::common::*;

struct Hosts {
    clusters: Cached<Cluster>,
    variant: Variant,
}

/// Orders clusters by their time of creation, and those of one second by their names.
fn created(cluster: &Cluster) -> (i64, String) {
    let time = cluster.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    (time.unwrap_or_default(), cluster.name_any())
}

impl Reconciler for Hosts {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        // The version of a cluster is its host.
        let host = &cluster.spec.version;
        let mut rivals = self.clusters.list()?;
        rivals.retain(|rival| rival.name_any() != key.name() && rival.spec.version == *host);
        let is_taken = rivals.iter().any(|rival| match self.variant {
            Variant::Buggy => rival.phase() == "Serving",
            Variant::Twin => created(rival) < created(&cluster),
        });
        let phase = if is_taken { "Waiting" } else { "Serving" };
        if cluster.phase() != phase {
            let status = ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

/// A cluster with the host that both ask for.
fn named(name: &str) -> String {
    format!(
        "{{apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: {name}}}, spec: {{version: shop.io}}}}"
    )
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_options(ControllerOptions::default().max_concurrent_reconciles(1))
            .complete(Hosts { clusters: manager.cached(), variant })?;
        Ok(())
    };
    Simulation::new("hosts", add).crd::<Cluster>().applies("a cluster asks for a host", &named("west")).step(
        "another one asks for it as well",
        async |user| {
            // Times of creation have whole seconds.
            tokio::time::sleep(Duration::from_secs(2)).await;
            user.apply_yaml(&named("east")).await
        },
    )
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
