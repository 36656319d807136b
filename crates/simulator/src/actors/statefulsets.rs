//! Creates and deletes the pods of StatefulSets.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
    set_controller_reference,
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use super::{MANAGER, unless_gone};

/// Adds a controller that creates and deletes the pods `<name>-0`, `<name>-1`, … of each StatefulSet, and reports how many are
/// ready. Unlike Kubernetes, it creates and deletes all pods at once, does not replace pods of an older template, and creates
/// no claims. Pods become ready only if [`kubelet`](super::kubelet) runs, too.
///
/// # Errors
///
/// The manager already has a controller of this name.
pub fn statefulsets(manager: &Manager) -> Result<(), AddError> {
    let sets = StatefulSets { sets: manager.cached(), pods: manager.cached() };
    Builder::managed_by(manager)
        .for_kind::<StatefulSet>()
        .named("statefulsets")
        .owns::<Pod>()
        .complete(sets)?;
    Ok(())
}

struct StatefulSets {
    sets: Cached<StatefulSet>,
    pods: Cached<Pod>,
}

impl Reconciler for StatefulSets {
    type Request = ObjectKey<StatefulSet>;

    async fn reconcile(&self, key: &ObjectKey<StatefulSet>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(set) = self.sets.get(key)? else { return Ok(Action::done()) };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let namespace = key.namespace().unwrap_or_default();
        let api = Api::<Pod>::namespaced(cx.client().kube().clone(), namespace);
        let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        // By uid, because pods of a deleted set of this name may still exist.
        let is_own = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.uid == uid);
        let pods = self.pods.list()?;
        let own: Vec<_> = pods.iter().filter(|pod| is_own(pod)).collect();
        for index in 0..wanted {
            let name = format!("{}-{index}", key.name());
            if own.iter().any(|pod| pod.name_any() == name) {
                continue;
            }
            let mut pod = Pod::default();
            if let Some(spec) = &set.spec {
                let template = spec.template.metadata.clone().unwrap_or_default();
                (pod.metadata.labels, pod.metadata.annotations) = (template.labels, template.annotations);
                pod.spec = spec.template.spec.clone();
            }
            (pod.metadata.name, pod.metadata.namespace) = (Some(name), Some(namespace.to_owned()));
            set_controller_reference(&*set, &mut pod)?;
            let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            match api.create(&params, &pod).await {
                // The deleted pod of this name still exists. Its removal is an event, which starts the next reconcile.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                created => drop(created?),
            }
        }
        for pod in &own {
            let index = pod.name_any().rsplit_once('-').and_then(|(_, index)| index.parse::<i32>().ok());
            if index.is_some_and(|index| index >= wanted) && pod.metadata.deletion_timestamp.is_none() {
                let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                unless_gone(api.delete(&pod.name_any(), &params).await)?;
            }
        }
        let is_ready = |pod: &&&Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
            pod.metadata.deletion_timestamp.is_none() && ready.is_some_and(|ready| ready.status == "True")
        };
        let own: Vec<&Pod> = own.into_iter().map(|pod| &**pod).collect();
        let ready = i32::try_from(own.iter().filter(is_ready).count()).unwrap_or(i32::MAX);
        let replicas = i32::try_from(own.len()).unwrap_or(i32::MAX);
        let known = set.status.as_ref();
        let is_known = known.is_some_and(|known| {
            known.replicas == replicas
                && known.ready_replicas.unwrap_or_default() == ready
                && known.observed_generation == set.metadata.generation
        });
        // A status that is written without a change would be an event that leads to the next reconcile.
        if !is_known {
            let status = json!({"status": {
                "observedGeneration": set.metadata.generation,
                "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
            }});
            let sets = Api::<StatefulSet>::namespaced(cx.client().kube().clone(), namespace);
            unless_gone(
                sets.patch_status(key.name(), &PatchParams::apply(MANAGER), &Patch::Merge(&status)).await,
            )?;
        }
        Ok(Action::done())
    }
}
