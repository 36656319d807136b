//! A backup scales a Deployment to zero, and then records the number of replicas to restore. Repeated, it records zero.
//!
//! Expected: same objects. Minimum plan: a crash after the Deployment is scaled.

use k8s_openapi::api::apps::v1::Deployment;

use crate::common::*;

struct Backups {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Backups {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let deployment = in_default::<Deployment>("web");
        let scale = |replicas: i32| json!({"spec": {"replicas": replicas}});
        let status = |phase: &str, replicas: Option<i32>| ClusterStatus {
            phase: Some(phase.to_owned()),
            replicas,
            ..ClusterStatus::default()
        };
        let original = cluster.status().replicas;
        match cluster.phase() {
            "" => {
                let Some(web) = cx.client().get(&deployment).await? else { return Ok(Action::done()) };
                let replicas = web.spec.as_ref().and_then(|spec| spec.replicas);
                if self.variant == Variant::Buggy {
                    cx.client().merge_patch(&deployment, &scale(0)).await?;
                }
                cx.client().apply_status(key, &status("Copying", replicas)).await?;
            }
            "Copying" => {
                cx.client().merge_patch(&deployment, &scale(0)).await?;
                cx.client().apply(&map("default", "backup", "of", "web")).await?;
                cx.client().apply_status(key, &status("Restoring", original)).await?;
            }
            "Restoring" => {
                cx.client().merge_patch(&deployment, &scale(original.unwrap_or(1))).await?;
                cx.client().apply_status(key, &status("Done", original)).await?;
            }
            _ => {}
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let backups = Backups { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(backups)?;
        Ok(())
    };
    Simulation::new("backups", add)
        .crd::<Cluster>()
        .actor("deployments", actors::deployments)
        .applies(
            "there is a web",
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {a: b}},
              template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: web}]}}}}",
        )
        .cluster("a backup is asked for", "{}")
}

#[test]
fn a_number_that_was_overwritten_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
