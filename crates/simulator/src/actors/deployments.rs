//! Reports Deployments as available.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{MANAGER, unless_gone};

/// Adds a controller that immediately reports all replicas of each Deployment as available. It creates neither ReplicaSets nor
/// pods.
///
/// # Errors
///
/// The manager already has a controller of this name.
pub fn deployments(manager: &Manager) -> Result<(), AddError> {
    let deployments = Deployments { deployments: manager.cached() };
    Builder::managed_by(manager).for_kind::<Deployment>().named("deployments").complete(deployments)?;
    Ok(())
}

struct Deployments {
    deployments: Cached<Deployment>,
}

impl Reconciler for Deployments {
    type Request = ObjectKey<Deployment>;

    async fn reconcile(&self, key: &ObjectKey<Deployment>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(deployment) = self.deployments.get(key)? else { return Ok(Action::done()) };
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.as_ref();
        let known = status.and_then(|status| status.observed_generation);
        let available = status.and_then(|status| status.available_replicas).unwrap_or_default();
        if deployment.metadata.deletion_timestamp.is_some()
            || (known == deployment.metadata.generation && available == replicas)
        {
            return Ok(Action::done());
        }
        let now = cx.wall_time();
        let status = json!({"status": {
            "observedGeneration": deployment.metadata.generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "conditions": [{
                "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "lastUpdateTime": now, "lastTransitionTime": now,
            }],
        }});
        let api =
            Api::<Deployment>::namespaced(cx.client().kube().clone(), key.namespace().unwrap_or_default());
        unless_gone(
            api.patch_status(key.name(), &PatchParams::apply(MANAGER), &Patch::Merge(&status)).await,
        )?;
        Ok(Action::done())
    }
}
