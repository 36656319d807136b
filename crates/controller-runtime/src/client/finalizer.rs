use serde_json::json;

use super::{Client, Error, Verb, name_of};
use crate::object::{Object, ObjectKey, StaticObject, resource_name};

/// Whether `finalizer` keeps the object from going.
pub fn has_finalizer<K: Object>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|known| known == finalizer)
}

impl Client {
    /// Adds `finalizer`, so that a delete waits until it is removed. Returns whether it was missing.
    ///
    /// The object's version is a precondition, so that no finalizer added meanwhile is lost.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if `object` is not the present version.
    #[doc(alias = "AddFinalizer")]
    pub async fn add_finalizer<K: StaticObject>(&self, object: &K, finalizer: &str) -> Result<bool, Error> {
        if has_finalizer(object, finalizer) {
            return Ok(false);
        }
        let known = object.meta().finalizers.iter().flatten().map(String::as_str);
        self.set_finalizers(object, known.chain([finalizer]).collect()).await?;
        Ok(true)
    }

    /// Removes `finalizer`; if it was the last one of an object being deleted, the object goes. Returns whether it was
    /// there: not so if the object itself is gone.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if `object` is not the present version.
    #[doc(alias = "RemoveFinalizer")]
    pub async fn remove_finalizer<K: StaticObject>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<bool, Error> {
        if !has_finalizer(object, finalizer) {
            return Ok(false);
        }
        let known = object.meta().finalizers.iter().flatten().map(String::as_str);
        match self.set_finalizers(object, known.filter(|known| *known != finalizer).collect()).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn set_finalizers<K: StaticObject>(&self, object: &K, finalizers: Vec<&str>) -> Result<(), Error> {
        let Some(key) = ObjectKey::of(object) else {
            let subject = format!("{} {}", resource_name::<K>(), name_of(object));
            return Err(Error::unsent(Verb::Patch, subject, "metadata.name and namespace must be set"));
        };
        let version = &object.meta().resource_version;
        let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": version } });
        self.merge_patch(&key, &patch).await.map(|_| ())
    }
}
