//! A kind and helpers that several operators of the corpus share.

pub(crate) use std::time::Duration;

pub(crate) use controller_runtime::{
    Action, Builder, Cached, Context, Kind, Manager, MapFn, ObjectKey, ReconcileError, Reconciler,
    client::ResultExt, has_finalizer, manager::AddError, set_controller_reference,
};
pub(crate) use k8s_openapi::api::core::v1::ConfigMap;
pub(crate) use kube::{Api, CustomResource, ResourceExt};
pub(crate) use kube_simulator::{Explore, Oracle, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(crate) use serde_json::json;

pub(crate) use crate::{Variant, find, find_nothing};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "corpus.dev", version = "v1", kind = "Task", namespaced, status = "TaskStatus")]
#[serde(default)]
pub(crate) struct TaskSpec {
    pub(crate) size: i32,
    pub(crate) text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
pub(crate) struct TaskStatus {
    pub(crate) phase: Option<String>,
    pub(crate) ready: Option<bool>,
    pub(crate) step: Option<i32>,
    pub(crate) seen: Option<i64>,
}

impl Task {
    pub(crate) fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Key of an object in the namespace `default`.
pub(crate) fn key<K>(name: &str) -> ObjectKey<K>
where
    K: controller_runtime::StaticObject + kube::Resource<Scope = kube::core::NamespaceResourceScope>,
{
    ObjectKey::new("default", name)
}

/// An empty ConfigMap in the namespace `default`.
pub(crate) fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some(name.to_owned()), Some("default".to_owned()));
    map
}

/// A ConfigMap with one entry, which the task owns.
pub(crate) fn child(task: &Task, name: &str, field: &str, value: &str) -> Result<ConfigMap, ReconcileError> {
    let mut child = map(name);
    child.data = Some([(field.to_owned(), value.to_owned())].into());
    set_controller_reference(task, &mut child)?;
    Ok(child)
}

/// Steps of users with YAML.
pub(crate) trait Steps {
    fn applies(self, name: &str, yaml: &str) -> Self;
    fn task(self, name: &str, spec: &str) -> Self;
    fn deletes_task(self, name: &str) -> Self;
}

impl Steps for Simulation {
    fn applies(self, name: &str, yaml: &str) -> Self {
        let yaml = yaml.to_owned();
        self.step(name, async move |user| user.apply_yaml(&yaml).await)
    }

    fn task(self, name: &str, spec: &str) -> Self {
        let yaml = format!("{{apiVersion: corpus.dev/v1, kind: Task, metadata: {{name: t}}, spec: {spec}}}");
        self.applies(name, &yaml)
    }

    fn deletes_task(self, name: &str) -> Self {
        self.step(name, async |user| user.delete_key(&key::<Task>("t")).await)
    }
}
