//! Traffic is moved when the Deployment is available, without a look at the generation that its status is about.
//!
//! Expected: the check. Minimum plan: the event of the new spec arrives before that of the new status.

use k8s_openapi::api::apps::v1::Deployment;
use kube_simulator::Now;

use crate::common::*;

struct Rollouts {
    clusters: Cached<Cluster>,
    deployments: Cached<Deployment>,
    variant: Variant,
}

impl Reconciler for Rollouts {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        let deployment = self.deployments.get(&in_default(key.name()))?;
        if deployment.as_ref().is_none_or(|deployment| deployment.labels().get("version") != Some(version)) {
            let labels = json!({"app": key.name()});
            let deployment = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": key.name(), "namespace": "default", "labels": {"version": version}},
                "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "web", "image": format!("web:{version}")}]},
                }},
            });
            let mut deployment: Deployment = serde_json::from_value(deployment)?;
            set_controller_reference(&*cluster, &mut deployment)?;
            cx.client().apply(&deployment).await?;
            return Ok(Action::done()); // goes on when the Deployment changes
        }
        let Some(deployment) = deployment else { return Ok(Action::done()) };
        let status = deployment.status.clone().unwrap_or_default();
        let is_available = status.available_replicas == Some(2);
        let is_about_this = status.observed_generation == deployment.metadata.generation;
        if is_available && (is_about_this || self.variant == Variant::Buggy) {
            cx.client().apply(&map("default", "traffic", "version", version)).await?;
        }
        Ok(Action::done())
    }
}

/// Whether the version that receives the traffic was rolled out.
fn traffic_goes_to_pods(now: &Now<'_>) -> bool {
    let maps = now.all::<ConfigMap>();
    let Some(traffic) = maps.iter().find(|map| map.name_any() == "traffic") else { return true };
    let version = traffic.data.as_ref().and_then(|data| data.get("version"));
    now.all::<Deployment>().iter().all(|deployment| {
        let seen = deployment.status.as_ref().and_then(|status| status.observed_generation);
        deployment.labels().get("version") != version || seen == deployment.metadata.generation
    })
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rollouts = Rollouts { clusters: manager.cached(), deployments: manager.cached(), variant };
        let owned = controller_runtime::Owns::<Deployment>::new().whole();
        Builder::managed_by(manager).for_kind::<Cluster>().owns_with(owned).complete(rollouts)?;
        Ok(())
    };
    Simulation::new("rollouts", add)
        .crd::<Cluster>()
        .actor("deployments", actors::deployments)
        .cluster("version 1 is created", "{version: '1'}")
        .cluster("version 2 is asked for", "{version: '2'}")
        .always("traffic goes to pods that run", traffic_goes_to_pods)
}

#[test]
fn a_status_of_the_generation_before_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
