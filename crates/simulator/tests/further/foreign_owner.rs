//! A ConfigMap in another namespace names a namespaced owner, which the garbage collector does not find there.
//!
//! Expected: same counts. Minimum plan: a crash after which the ConfigMap is created again, and collected again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::common::*;

const FINALIZER: &str = "further.dev/dashboard";

struct Dashboards {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Dashboards {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let dashboard = ObjectKey::<ConfigMap>::new("monitoring", "db-dashboard");
        if cluster.is_terminating() {
            cx.client().delete_key(&dashboard).await?;
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        let mut map = map("monitoring", dashboard.name(), "title", &cluster.spec.version);
        match self.variant {
            Variant::Buggy => {
                map.metadata.owner_references = Some(vec![OwnerReference {
                    api_version: "further.dev/v1".to_owned(),
                    kind: "Cluster".to_owned(),
                    name: cluster.name_any(),
                    uid: cluster.uid().unwrap_or_default(),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]);
            }
            Variant::Twin => drop(cx.client().add_finalizer(&*cluster, FINALIZER).await?),
        }
        cx.client().apply(&map).await?;
        let status = ClusterStatus { phase: Some("Ready".to_owned()), ..ClusterStatus::default() };
        if cluster.status() != status {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let dashboards = Dashboards { clusters: manager.cached(), variant };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_predicate(GenerationChanged)
            .complete(dashboards)?;
        Ok(())
    };
    Simulation::new("dashboards", add)
        .crd::<Cluster>()
        .applies("there is a monitoring", "{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}")
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
        .deletes_cluster("it is deleted")
}

#[test]
fn a_child_that_is_collected_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
