//! Adding and removing single finalizers.

use kube::core::DynamicObject;
use serde_json::json;

use super::result_ext::ResultExt;
use crate::{
    client::{
        requests::{dynamic::DynamicClient, object_requests::ObjectRequests, patch::Patch},
        transport::{call::Verb, client::Client, error::ClientError},
    },
    object::{Object, StaticObject},
};

/// Returns whether the object has `finalizer`, which delays its deletion.
#[doc(alias = "ContainsFinalizer")]
pub fn has_finalizer<K: Object>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|known| known == finalizer)
}

impl Client {
    /// Adds `finalizer`, so that a deletion of the object waits until the finalizer is removed. Returns whether it was
    /// missing. If so, `object` is outdated; [`Finalizers`](crate::finalizer::Finalizers) return the new version.
    ///
    /// The object's version is a precondition, so that no finalizer added meanwhile is lost.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_conflict`] if `object` is not the current version.
    #[doc(alias = "AddFinalizer")]
    pub async fn add_finalizer<K: StaticObject>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<bool, ClientError> {
        Ok(add_finalizers(self, object, [finalizer]).await?.is_some())
    }

    /// Removes `finalizer`. If the object is being deleted and this was its last finalizer, the API server removes the
    /// object. Returns whether the object had the finalizer; `false` if the object no longer exists.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_conflict`] if `object` is not the current version.
    #[doc(alias = "RemoveFinalizer")]
    pub async fn remove_finalizer<K: StaticObject>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<bool, ClientError> {
        remove_finalizer(self, object, finalizer).await
    }
}

impl DynamicClient {
    /// Like [`Client::add_finalizer`].
    ///
    /// # Errors
    ///
    /// See [`Client::add_finalizer`].
    pub async fn add_finalizer(&self, object: &DynamicObject, finalizer: &str) -> Result<bool, ClientError> {
        Ok(add_finalizers(self, object, [finalizer]).await?.is_some())
    }

    /// Like [`Client::remove_finalizer`].
    ///
    /// # Errors
    ///
    /// See [`Client::remove_finalizer`].
    pub async fn remove_finalizer(
        &self,
        object: &DynamicObject,
        finalizer: &str,
    ) -> Result<bool, ClientError> {
        remove_finalizer(self, object, finalizer).await
    }
}

/// Adds missing finalizers in one request. Returns the stored object; `None` if none was missing.
pub(crate) async fn add_finalizers<'f, K: Object>(
    client: &impl ObjectRequests<K>,
    object: &K,
    finalizers: impl IntoIterator<Item = &'f str>,
) -> Result<Option<K>, ClientError> {
    let missing: Vec<&str> = finalizers.into_iter().filter(|name| !has_finalizer(object, name)).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let known = object.meta().finalizers.iter().flatten().map(String::as_str);
    write_finalizers(client, object, known.chain(missing).collect()).await.map(Some)
}

async fn remove_finalizer<K: Object>(
    client: &impl ObjectRequests<K>,
    object: &K,
    finalizer: &str,
) -> Result<bool, ClientError> {
    if !has_finalizer(object, finalizer) {
        return Ok(false);
    }
    without_finalizer(client, object, finalizer).await.map(|stored| stored.is_some())
}

/// Removes `finalizer`. Returns the stored object; `None` if it no longer exists.
pub(crate) async fn without_finalizer<K: Object>(
    client: &impl ObjectRequests<K>,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, ClientError> {
    let known = object.meta().finalizers.iter().flatten().map(String::as_str);
    write_finalizers(client, object, known.filter(|known| *known != finalizer).collect()).await.optional()
}

/// Replaces the list of finalizers, if `object` is the current version.
async fn write_finalizers<K: Object>(
    client: &impl ObjectRequests<K>,
    object: &K,
    finalizers: Vec<&str>,
) -> Result<K, ClientError> {
    let key = client.key_of(Verb::Patch, object)?;
    let patch = Patch::merge(&json!({ "metadata": { "finalizers": finalizers } })).with_version_of(object);
    client.patch(&key, patch).await
}
