//! One cluster of a fleet is updated at a time. One worker looks whether another cluster is being updated, and then
//! writes that this one is. It looks into the cache: a write whose answer was lost is not there yet, so that the next
//! cluster is updated as well. The corrected operator lists the clusters.
//!
//! Expected: the check. Minimum plan: the answer to the write that begins an update is lost.

use controller_runtime::controller::ControllerOptions;
use k8s_openapi::api::apps::v1::Deployment;
use kube_simulator::Now;

use crate::common::*;

const UPDATING: &str = "Updating";

/// Interval at which a cluster looks whether it is its turn.
const INTERVAL: Duration = Duration::from_secs(5);

struct Rollouts {
    clusters: Cached<Cluster>,
    deployments: Cached<Deployment>,
    variant: Variant,
}

impl Rollouts {
    async fn is_another_updated(&self, name: &str, cx: &Context) -> Result<bool, ReconcileError> {
        let is_updated = |other: &Cluster| other.name_any() != name && other.phase() == UPDATING;
        if self.variant == Variant::Buggy {
            return Ok(self.clusters.list()?.iter().any(|other| is_updated(other)));
        }
        let all = cx.client().list::<Cluster>().in_namespace("default").await?;
        Ok(all.items.iter().any(is_updated))
    }
}

fn deployment(cluster: &Cluster) -> Result<Deployment, ReconcileError> {
    let (name, image) = (cluster.name_any(), format!("db:{}", cluster.spec.version));
    let labels = json!({"app": name});
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

impl Reconciler for Rollouts {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        if cluster.status().version.as_ref() == Some(version) {
            return Ok(Action::done());
        }
        let status = |phase: &str, version: Option<String>| ClusterStatus {
            phase: Some(phase.to_owned()),
            version,
            ..ClusterStatus::default()
        };
        if cluster.phase() != UPDATING {
            if self.is_another_updated(key.name(), cx).await? {
                return Ok(Action::requeue_after(INTERVAL));
            }
            cx.client().apply_status(key, &status(UPDATING, None)).await?;
        }
        cx.client().apply(&deployment(&cluster)?).await?;
        let known = self.deployments.get(&in_default(key.name()))?;
        if !known.is_some_and(|known| is_available(&known)) {
            return Ok(Action::done()); // goes on when the Deployment changes
        }
        cx.client().apply_status(key, &status("Updated", Some(version.clone()))).await?;
        Ok(Action::done())
    }
}

/// Whether at most one cluster is being updated.
fn one_at_a_time(now: &Now<'_>) -> bool {
    now.all::<Cluster>().iter().filter(|cluster| cluster.phase() == UPDATING).count() <= 1
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rollouts = Rollouts { clusters: manager.cached(), deployments: manager.cached(), variant };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .owns::<Deployment>()
            .with_options(ControllerOptions::default().max_concurrent_reconciles(1))
            .complete(rollouts)?;
        Ok(())
    };
    let fleet = |version: &str| {
        let member = |name: &str| {
            let head = format!("apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: {name}}}");
            format!("{{{head}, spec: {{version: '{version}'}}}}")
        };
        ["blue", "green", "red"].map(member).join("\n---\n")
    };
    Simulation::new("rollouts", add)
        .crd::<Cluster>()
        .actor("deployments", actors::deployments)
        .applies("three clusters are created", &fleet("1"))
        .applies("all of them get another version", &fleet("2"))
        .always("one cluster is updated at a time", one_at_a_time)
}

#[test]
fn an_update_that_the_cache_does_not_show_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
