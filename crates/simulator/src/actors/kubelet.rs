//! Runs pods.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::Duration;

use super::unless_gone;

/// Field manager of the writes.
const MANAGER: &str = "kubelet";

/// Adds a controller that acts as scheduler and kubelet: it binds pods to the node `node`, reports them as ready immediately,
/// and removes deleted pods after their grace period.
///
/// # Errors
///
/// The manager already has a controller for pods with the same name.
pub fn kubelet(manager: &Manager) -> Result<(), AddError> {
    let kubelet = Kubelet { pods: manager.cached() };
    Builder::managed_by(manager).for_kind::<Pod>().named("kubelet").complete(kubelet)?;
    Ok(())
}

struct Kubelet {
    pods: Cached<Pod>,
}

impl Reconciler for Kubelet {
    type Request = ObjectKey<Pod>;

    async fn reconcile(&self, key: &ObjectKey<Pod>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(pod) = self.pods.get(key)? else { return Ok(Action::done()) };
        let api = Api::<Pod>::namespaced(cx.client().kube().clone(), key.namespace().unwrap_or_default());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if let Some(deletion) = &pod.metadata.deletion_timestamp {
            let left = deletion.0.duration_since(cx.wall_time());
            if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
                return Ok(Action::requeue_after(left));
            }
            // The cache may be late: a new pod of this name must not be ended for the old one.
            let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
            let end = DeleteParams {
                preconditions: Some(preconditions),
                ..DeleteParams::default().grace_period(0)
            };
            unless_gone(api.delete(key.name(), &end).await)?;
            return Ok(Action::done());
        }
        if ["Running", "Succeeded", "Failed"].contains(&phase) {
            return Ok(Action::done());
        }
        // A retry after a failed status update finds the pod bound, and a second binding is a conflict.
        if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": key.name()}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
            });
            let bound: Result<Value, _> =
                api.create_subresource("binding", key.name(), &PostParams::default(), &binding).await;
            // The pod may be gone meanwhile, which the update of its status ignores as well.
            unless_gone(bound)?;
        }
        let now = cx.wall_time();
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let is_true = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let conditions = conditions.map(is_true);
        let status = json!({"status": {
            "phase": "Running",
            "startTime": now,
            "conditions": conditions,
        }});
        unless_gone(
            api.patch_status(key.name(), &PatchParams::apply(MANAGER), &Patch::Merge(&status)).await,
        )?;
        Ok(Action::done())
    }
}
