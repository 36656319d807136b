use serde_json::json;

use super::{Client, Error, Patch, ResultExt, Verb, name_of};
use crate::object::{Object, ObjectKey, StaticObject, resource_name};

/// Whether `finalizer` keeps the object from going.
#[doc(alias = "ContainsFinalizer")]
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
        self.add_finalizers(object, [finalizer]).await
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
        self.without_finalizer(object, finalizer).await.map(|stored| stored.is_some())
    }

    /// Adds those that are missing, in one request. Returns whether there were some.
    pub(super) async fn add_finalizers<'f, K: StaticObject>(
        &self,
        object: &K,
        finalizers: impl IntoIterator<Item = &'f str>,
    ) -> Result<bool, Error> {
        let missing: Vec<&str> = finalizers.into_iter().filter(|name| !has_finalizer(object, name)).collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let known = object.meta().finalizers.iter().flatten().map(String::as_str);
        self.set_finalizers(object, known.chain(missing).collect()).await?;
        Ok(true)
    }

    /// Removes `finalizer`. The object as it is then; `None` if it was gone before.
    pub(super) async fn without_finalizer<K: StaticObject>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<Option<K>, Error> {
        let known = object.meta().finalizers.iter().flatten().map(String::as_str);
        self.set_finalizers(object, known.filter(|known| *known != finalizer).collect()).await.optional()
    }

    async fn set_finalizers<K: StaticObject>(&self, object: &K, finalizers: Vec<&str>) -> Result<K, Error> {
        let Some(key) = ObjectKey::of(object) else {
            let subject = format!("{} {}", resource_name::<K>(), name_of(object));
            return Err(Error::unsent(Verb::Patch, subject, "metadata.name and namespace must be set"));
        };
        let patch = Patch::merge(&json!({ "metadata": { "finalizers": finalizers } }));
        self.patch(&key, patch.with_version_of(object)).await
    }
}
