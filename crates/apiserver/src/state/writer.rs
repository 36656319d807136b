//! Writes of the server itself, without a request: creation of its own objects, and ownership of the fields that it sets.

use kube_apimachinery::managed_fields::{self, OnConflict, Schemas, Versions, Writer};
use kube_apimachinery::metadata;
use kube_apimachinery::schema::Schema;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::ClusterState;
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kind::webhook_conversion::WebhookConversion;
use crate::store::{Change, Key, Store};

/// Creates an object of the server itself, such as a default namespace. Does nothing if the object exists, or if its namespace does not
/// exist or is being deleted.
pub(crate) fn put_if_absent(cluster: &ClusterState, served: &ServedKind, key: &Key, object: &Value) {
    let change = Change::Put(served.document(object));
    let guard = |store: &Store<StorageKey>| {
        let namespace = store.get(&crate::kinds::namespace::table(), &Key::new("", key.namespace()));
        let stays =
            key.namespace().is_empty() || namespace.is_some_and(|stored| !stored.document.is_terminating());
        if stays { Ok(()) } else { Err(()) }
    };
    // A conflict means that the object exists already.
    let _ = cluster.commit(served.storage(), key, None, change, guard);
}

/// Makes a manager, of a client or of the server itself, the owner of the changed fields. If a webhook converts objects of the kind, only
/// metadata may have changed.
pub(crate) fn track_as(
    cluster: &ClusterState,
    served: &ServedKind,
    manager: &str,
    subresource: &str,
    old: Option<&Value>,
    new: &mut Value,
) {
    if !served.strategy.tracks_fields() {
        metadata::of(new).remove("managedFields");
        return;
    }
    let now = cluster.clock.now_seconds();
    let writer = Writer { manager, subresource, api_version: &served.kind.api_version, now: &now };
    let reset = served.reset_fields(subresource);
    let Some(webhook) = &served.webhook else {
        match served.version_schemas() {
            // After an error, such as for an object that does not fit its schemas, `new` has no entries.
            Some(schemas) => {
                let _ = managed_fields::track_update_across(schemas, old, new, &writer, reset);
            }
            None => managed_fields::track_update(&served.schema, old, new, &writer, reset),
        }
        return;
    };
    let schemas = Schemas { own: &served.schema, others: Some(&SameMetadata(webhook)), versions: &[] };
    // Without a conversion, tracking cannot fail.
    let _ = managed_fields::track_update_across(schemas, old, new, &writer, reset);
}

/// Applies a configuration, which takes its fields from other managers, to a stored object: `live` is its key, its revision and its value. On a
/// conflict with another commit nothing happens.
///
/// # Errors
/// The reason why the configuration cannot be applied.
pub(crate) fn apply_as(
    cluster: &ClusterState,
    served: &ServedKind,
    manager: &str,
    subresource: &str,
    live: (&Key, u64, &Value),
    configuration: &Value,
) -> Result<(), ApiError> {
    let (key, revision, live) = live;
    let now = cluster.clock.now_seconds();
    let writer = Writer { manager, subresource, api_version: &served.kind.api_version, now: &now };
    let reset = served.reset_fields(subresource);
    let object =
        managed_fields::apply(&served.schema, Some(live), configuration, &writer, OnConflict::Force, reset)?;
    let _ = cluster.commit_unguarded(
        served.storage(),
        key,
        Some(revision),
        Change::Put(served.document(&object)),
    );
    Ok(())
}

/// Versions of a kind, for writes of metadata, which is equal in all versions.
struct SameMetadata<'a>(&'a WebhookConversion);

impl Versions for SameMetadata<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.0.version_of(api_version).map(|version| &*version.schema)
    }

    fn convert(&self, object: &Value, _api_version: &str) -> Result<Value, ApiError> {
        Ok(object.clone())
    }
}
