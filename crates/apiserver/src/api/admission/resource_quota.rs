//! Plugin `ResourceQuota`: refuses writes that would make a namespace exceed its quotas.
//!
//! The plugin checks a write before it is committed. [`charges`] repeats the check at the commit, under the lock of the store. It returns
//! the new usage of the quotas, which is committed together with the object. So concurrent writes never exceed a quota together, and a
//! write that fails uses nothing. (kube-apiserver writes the usage before the object; if the write then fails, its quota controller
//! corrects the usage.)
//!
//! A quota limits only the resources that its status lists. Without the controller that counts existing objects (profile `dev`) a new
//! quota has no status and allows all writes, as with a kube-apiserver alone. Writes of the server's own controllers are not checked.

use std::sync::Arc;

use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::resource_quota::{self as quota, ObjectCounter, Quota};
use crate::kinds::builtin::shared::amounts::Amounts;
use crate::state::{SideChange, writer};
use crate::store::{Key, Store, Stored};

/// Field manager of writes of the usage.
const MANAGER: &str = "kube-apiserver";

pub(super) struct QuotaAdmission;

impl WriteRule for QuotaAdmission {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        let quotas = attributes.cluster.read(|store| in_namespace(store, attributes));
        usage(attributes, object, &quotas).map(|_| ())
    }
}

/// Returns the changes to commit with a write: its quotas with their new usage.
///
/// # Errors
/// 403 if the write exceeds a quota now.
pub(super) fn charges(
    attributes: &Attributes<'_>,
    object: &Value,
    store: &Store<StorageKey>,
) -> Result<Vec<SideChange>, ApiError> {
    // Read again, because other writes may have been charged since `validate`.
    let quotas = in_namespace(store, attributes);
    if quotas.is_empty() {
        return Ok(Vec::new());
    }
    let Some(served) = attributes.cluster.registry().get("", "v1", "resourcequotas").cloned() else {
        return Ok(Vec::new());
    };
    let used = usage(attributes, object, &quotas)?;
    Ok(used
        .into_iter()
        .map(|(index, used)| {
            let (key, stored) = &quotas[index];
            let old = served.value(stored);
            let mut new = old.clone();
            new["status"]["used"] = used.to_json();
            writer::track_as(attributes.cluster, &served, MANAGER, "status", Some(&old), &mut new);
            SideChange { storage: table(), key: key.clone(), object: served.document(&new) }
        })
        .collect())
}

fn table() -> StorageKey {
    StorageKey::core("resourcequotas")
}

/// Returns the quotas that may count a write. Most namespaces have none.
fn in_namespace(store: &Store<StorageKey>, attributes: &Attributes<'_>) -> Vec<(Key, Arc<Stored>)> {
    // For other plugins a namespace object is in the namespace of its own name, but no quota counts it.
    if attributes.namespace.is_empty() || !attributes.served.resource.namespaced {
        return Vec::new();
    }
    let snapshot = store.snapshot(&table());
    if snapshot.len() == 0 {
        // Without quotas, spare each write the bounds of the range below.
        return Vec::new();
    }
    let quotas = snapshot.range(attributes.namespace, None);
    quotas.map(|(key, stored)| (key.clone(), Arc::clone(stored))).collect()
}

/// Returns the new usage of the quotas that count a write, with their indices.
fn usage(
    attributes: &Attributes<'_>,
    object: &Value,
    quotas: &[(Key, Arc<Stored>)],
) -> Result<Vec<(usize, Amounts)>, ApiError> {
    if quotas.is_empty() {
        return Ok(Vec::new());
    }
    let resource = &attributes.served.resource;
    let operation = match (attributes.operation, attributes.old) {
        (Operation::Create, _) => quota::QuotaOperation::Create,
        (Operation::Update, Some(old)) => quota::QuotaOperation::Update(old),
        _ => return Ok(Vec::new()),
    };
    let (Some(counter), Some(served)) = (
        ObjectCounter::of(&resource.group, &resource.plural),
        attributes.cluster.registry().get("", "v1", "resourcequotas").cloned(),
    ) else {
        return Ok(Vec::new());
    };
    let quotas: Vec<Quota> = quotas.iter().map(|(_, stored)| Quota::read(&served.value(stored))).collect();
    let now = attributes.cluster.clock.now();
    let write = quota::QuotaWrite { operation, subresource: attributes.subresource, object, now };
    quota::charge(&quotas, &counter, write).map_err(|why| attributes.forbidden(object, &why))
}
