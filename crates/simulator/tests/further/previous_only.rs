//! Each version of a cluster has a Deployment of its own. When the new one is available, the one of the version before is deleted, as the
//! status names it: a version that the user skips before it is available is named by nothing, and stays.
//!
//! Expected: same objects. Minimum plan: the next version is asked for before the Deployment of this one is created.

use controller_runtime::Owns;
use k8s_openapi::api::apps::v1::Deployment;

use crate::common::*;

struct Versions {
    clusters: Cached<Cluster>,
    deployments: Cached<Deployment>,
    variant: Variant,
}

fn deployment(cluster: &Cluster, name: &str) -> Result<Deployment, ReconcileError> {
    let labels = json!({"app": cluster.name_any(), "version": cluster.spec.version});
    let image = format!("db:{}", cluster.spec.version);
    let mut deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "db", "image": image}]},
        }},
    }))?;
    set_controller_reference(cluster, &mut deployment)?;
    Ok(deployment)
}

fn is_available(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    status.available_replicas == Some(2) && status.observed_generation == deployment.metadata.generation
}

impl Reconciler for Versions {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        let name = format!("{}-{version}", key.name());
        cx.client().apply(&deployment(&cluster, &name)?).await?;
        let known = self.deployments.get(&in_default(&name))?;
        if !known.is_some_and(|known| is_available(&known)) {
            return Ok(Action::done()); // goes on when the Deployment changes
        }
        match self.variant {
            Variant::Buggy => {
                if let Some(before) = cluster.status().version.filter(|before| before != version) {
                    let before = in_default::<Deployment>(&format!("{}-{before}", key.name()));
                    cx.client().delete_key(&before).await?;
                }
            }
            Variant::Twin => {
                let all = self.deployments.owned_by(&*cluster)?;
                for other in all.iter().filter(|other| other.name_any() != name) {
                    cx.client().delete(&**other).any_version().await?;
                }
            }
        }
        let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let versions = Versions { clusters: manager.cached(), deployments: manager.cached(), variant };
        let owned = Owns::<Deployment>::new().whole();
        Builder::managed_by(manager).for_kind::<Cluster>().owns_with(owned).complete(versions)?;
        Ok(())
    };
    Simulation::new("versions", add)
        .crd::<Cluster>()
        .actor("deployments", actors::deployments)
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("version 2 is asked for", "{version: '2'}")
        .cluster("version 3 is asked for", "{version: '3'}")
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
