use std::{fmt, sync::Arc};

use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use super::{Cached, DecodeError, Lazy, ReadError};
use crate::object::{Object, ObjectKey};

/// The cached objects of a kind, seen as something else: metadata alone, a slim type, or what a function makes of them.
///
/// A view of one store. It keeps nothing and watches nothing; each read makes what it returns.
///
/// ```
/// use controller_runtime::{Cached, ObjectKey, ReadError};
/// use k8s_openapi::api::core::v1::Pod;
///
/// /// What a scheduler needs of a pod.
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
    /// The objects as `T`, decoded from the same text.
    #[must_use]
    pub fn view<T: DeserializeOwned + 'static>(&self) -> View<K, T> {
        View { cached: self.clone(), make: Arc::new(Lazy::decode_as) }
    }

    /// All of their metadata, annotations as well.
    #[must_use]
    pub fn metadata(&self) -> View<K, PartialObjectMeta<K>> {
        self.view()
    }

    /// What `transform` makes of them.
    pub fn transformed<T>(&self, transform: impl Fn(&K) -> T + Send + Sync + 'static) -> View<K, T> {
        let make = move |state: &Lazy<K>| state.object().map(|object| transform(&object));
        View { cached: self.clone(), make: Arc::new(make) }
    }
}

impl<K: Object, T> View<K, T> {
    /// The object, if it exists.
    ///
    /// # Errors
    ///
    /// It does not fit, or it is not known whether it exists.
    pub fn get(&self, key: &ObjectKey<K>) -> Result<Option<T>, ReadError> {
        Ok(self.cached.get_lazy(key)?.map(|state| (self.make)(&state)).transpose()?)
    }

    /// All objects, by namespace and name.
    ///
    /// # Errors
    ///
    /// One of them does not fit, or they have not been listed yet.
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
