//! Other versions and groups of a resource, and conversion of objects to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_apimachinery::status::ApiError;
use parking_lot::Mutex;
use serde_json::Value;

use super::Attributes;
use super::changed_object::check_group;
use crate::api::conversion::Converter;
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::state::ClusterState;

/// Resources that are served in several versions or groups.
#[derive(Default)]
pub(super) struct Equivalents(Mutex<Tables>);

/// Resources, grouped by the table of their objects. Only tables with several resources are listed.
#[derive(Default)]
struct Tables {
    /// Version of the registry from which the groups were computed.
    registry: u64,
    resources: Arc<BTreeMap<StorageKey, Vec<Arc<ServedKind>>>>,
}

impl Equivalents {
    /// Returns the other resources that share the objects of a resource and have the subresource.
    pub(super) fn of(
        &self,
        cluster: &ClusterState,
        served: &ServedKind,
        subresource: &str,
    ) -> Vec<Arc<ServedKind>> {
        let tables = self.tables(cluster);
        let resources = tables.get(served.storage()).into_iter().flatten();
        let is_other = |other: &&Arc<ServedKind>| {
            let (own, other) = (&served.resource, &other.resource);
            (&own.group, &own.version) != (&other.group, &other.version)
        };
        let others = resources.filter(is_other);
        others.filter(|other| has_subresource(other, subresource)).cloned().collect()
    }

    fn tables(&self, cluster: &ClusterState) -> Arc<BTreeMap<StorageKey, Vec<Arc<ServedKind>>>> {
        // Read before the registry. If the registry changes in between, the groups are computed once more
        // than needed, and never used for too long.
        let version = cluster.registry_version();
        let mut tables = self.0.lock();
        if tables.registry != version {
            let mut resources: BTreeMap<StorageKey, Vec<Arc<ServedKind>>> = BTreeMap::new();
            for served in cluster.registry().all() {
                resources.entry(served.storage().clone()).or_default().push(Arc::clone(served));
            }
            resources.retain(|_, resources| resources.len() > 1);
            *tables = Tables { registry: version, resources: Arc::new(resources) };
        }
        Arc::clone(&tables.resources)
    }
}

fn has_subresource(served: &ServedKind, subresource: &str) -> bool {
    let resource = &served.resource;
    match subresource {
        "" => true,
        "status" => resource.status,
        "scale" => resource.scale.is_some(),
        other => resource.other_subresources.iter().any(|known| known.name == other),
    }
}

/// Converts an object under review to another version, by the conversion webhook of its definition if there is one. Objects of other kinds
/// than the resource's, such as a `Scale`, are equal in all versions.
///
/// # Errors
/// 500 if the conversion webhook fails, or if a patch has given the object another group.
pub(super) async fn convert(
    attributes: &Attributes<'_>,
    from: &ServedKind,
    to: &ServedKind,
    object: Option<&Value>,
) -> Result<Option<Value>, ApiError> {
    let Some(object) = object else { return Ok(None) };
    let mut converted = object.clone();
    if !attributes.is_of_resource() {
        return Ok(Some(converted));
    }
    if to.is_custom() {
        check_group(object, to)?;
    }
    if to.webhook.is_some() {
        converted["apiVersion"] = from.resource.api_version().into();
        converted["kind"] = from.resource.kind.clone().into();
        let converted = Converter::between(attributes.cluster, to, converted).await;
        return converted.map(Some);
    }
    // Versions are converted by way of the stored form, as Go converts them by way of its internal type.
    from.strategy.convert_to_storage(from, &mut converted);
    to.strategy.convert_from_storage(to, &mut converted);
    converted["apiVersion"] = to.resource.api_version().into();
    converted["kind"] = to.resource.kind.clone().into();
    if !to.is_custom() {
        to.conform(&mut converted);
    }
    Ok(Some(converted))
}

/// The objects of a request in another version.
pub(super) struct ConvertedObjects {
    pub(super) served: Arc<ServedKind>,
    pub(super) object: Option<Value>,
    pub(super) old: Option<Value>,
}

impl ConvertedObjects {
    /// Converts the objects of a request.
    ///
    /// # Errors
    /// 500 if the conversion webhook fails.
    pub(super) async fn of(
        attributes: &Attributes<'_>,
        served: &Arc<ServedKind>,
        object: Option<&Value>,
    ) -> Result<Self, ApiError> {
        let old = convert(attributes, attributes.served, served, attributes.old).await?;
        let object = convert(attributes, attributes.served, served, object).await?;
        Ok(Self { served: Arc::clone(served), object, old })
    }
}
