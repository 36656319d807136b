//! Views of a cache as other types.

use std::{fmt, sync::Arc};

use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use super::cached::Cached;
use crate::{
    cache::{
        objects::{decode_error::DecodeError, lazy::Lazy},
        state::read_error::ReadError,
    },
    object::{Object, ObjectKey},
};

/// The cached objects of a kind as another type: metadata alone, a slimmer type, or the result of a function.
///
/// A view stores no objects and opens no watch: each read converts the cached objects.
///
/// ```
/// use controller_runtime::{Cached, ObjectKey, ReadError};
/// use k8s_openapi::api::core::v1::Pod;
///
/// /// The fields of a pod that a scheduler needs.
/// #[derive(serde::Deserialize)]
/// struct Placement {
///     spec: Spec,
/// }
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec {
///     node_name: Option<String>,
/// }
///
/// fn node_of(pods: &Cached<Pod>, key: &ObjectKey<Pod>) -> Result<Option<String>, ReadError> {
///     let placements = pods.view::<Placement>();
///     Ok(placements.get(key)?.and_then(|pod| pod.spec.node_name))
/// }
/// ```
pub struct View<K: Object, T> {
    cached: Cached<K>,
    make: Arc<Make<K, T>>,
}

type Make<K, T> = dyn Fn(&Lazy<K>) -> Result<T, DecodeError> + Send + Sync;

impl<K: Object> Cached<K> {
    /// Returns a view of the objects as `T`, decoded from the same text.
    #[must_use]
    pub fn view<T: DeserializeOwned + 'static>(&self) -> View<K, T> {
        View { cached: self.clone(), make: Arc::new(Lazy::decode_as) }
    }

    /// Returns a view of all metadata, including annotations.
    #[must_use]
    pub fn metadata(&self) -> View<K, PartialObjectMeta<K>> {
        self.view()
    }

    /// Returns a view of the results of `transform` for the objects.
    pub fn transformed<T>(&self, transform: impl Fn(&K) -> T + Send + Sync + 'static) -> View<K, T> {
        let make = move |state: &Lazy<K>| state.object().map(|object| transform(&object));
        View { cached: self.clone(), make: Arc::new(make) }
    }
}

impl<K: Object, T> View<K, T> {
    /// Returns the object, if it exists.
    ///
    /// # Errors
    ///
    /// The object cannot be decoded, or it is not known whether it exists.
    pub fn get(&self, key: &ObjectKey<K>) -> Result<Option<T>, ReadError> {
        Ok(self.cached.get_lazy(key)?.map(|state| (self.make)(&state)).transpose()?)
    }

    /// Returns all objects in the order of namespace and name.
    ///
    /// # Errors
    ///
    /// An object cannot be decoded, or the objects have not been listed yet.
    pub fn list(&self) -> Result<Vec<T>, ReadError> {
        Ok(self.cached.list_lazy()?.iter().map(|state| (self.make)(state)).collect::<Result<_, _>>()?)
    }
}

impl<K: Object, T> Clone for View<K, T> {
    fn clone(&self) -> Self {
        Self { cached: self.cached.clone(), make: Arc::clone(&self.make) }
    }
}

impl<K: Object, T> fmt::Debug for View<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("of", &self.cached).finish_non_exhaustive()
    }
}
