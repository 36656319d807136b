//! A kind and helpers that the operators of this target share.

pub(crate) use std::time::Duration;

pub(crate) use controller_runtime::{
    Action, Builder, Cached, Context, Kind, Manager, MapFn, ObjectKey, ReconcileError, Reconciler,
    client::ResultExt, has_finalizer, manager::AddError, predicate::GenerationChanged,
    set_controller_reference,
};
pub(crate) use k8s_openapi::api::core::v1::{ConfigMap, Secret};
pub(crate) use kube::{CustomResource, ResourceExt};
pub(crate) use kube_simulator::{Lost, Oracle, Remote, Simulation, actors};
pub(crate) use parking_lot::Mutex;
pub(crate) use schemars::JsonSchema;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::json;

pub(crate) use crate::{Variant, find, find_nothing};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Cluster", namespaced, status = "ClusterStatus")]
#[serde(default)]
pub(crate) struct ClusterSpec {
    pub(crate) size: i32,
    pub(crate) version: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
pub(crate) struct ClusterStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl Cluster {
    pub(crate) fn status(&self) -> ClusterStatus {
        self.status.clone().unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> &str {
        self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Key of an object in the namespace `default`.
pub(crate) fn in_default<K>(name: &str) -> ObjectKey<K>
where
    K: controller_runtime::StaticObject + kube::Resource<Scope = kube::core::NamespaceResourceScope>,
{
    ObjectKey::new("default", name)
}

/// A ConfigMap with one entry.
pub(crate) fn map(namespace: &str, name: &str, field: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some(name.to_owned()), Some(namespace.to_owned()));
    map.data = Some([(field.to_owned(), value.to_owned())].into());
    map
}

/// Steps with YAML.
pub(crate) trait Steps {
    fn applies(self, name: &str, yaml: &str) -> Self;
    /// Applies the Cluster `db` with this spec.
    fn cluster(self, name: &str, spec: &str) -> Self;
    fn deletes_cluster(self, name: &str) -> Self;
}

/// The Cluster `db` as YAML.
pub(crate) fn cluster(spec: &str) -> String {
    format!("{{apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: db}}, spec: {spec}}}")
}

impl Steps for Simulation {
    fn applies(self, name: &str, yaml: &str) -> Self {
        let yaml = yaml.to_owned();
        self.step(name, async move |user| user.apply_yaml(&yaml).await)
    }

    fn cluster(self, name: &str, spec: &str) -> Self {
        self.applies(name, &cluster(spec))
    }

    fn deletes_cluster(self, name: &str) -> Self {
        self.step(name, async |user| user.delete_key(&in_default::<Cluster>("db")).await)
    }
}
