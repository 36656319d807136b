use std::{fmt, sync::Arc};

use super::{
    decode_error::DecodeError,
    meta::{Interner, Meta, RawMeta},
};
use crate::object::{Object, ObjectKey};

/// One state of an object: its metadata at hand, the object itself when asked for.
///
/// A handle, cheap to clone. It stays what it is whatever happens to the object in the cluster.
///
/// ```
/// use controller_runtime::Lazy;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # fn example(config: &Lazy<ConfigMap>) -> Result<(), controller_runtime::DecodeError> {
/// if config.meta().labels().get("app") == Some("web") {
///     let config = config.object()?; // an Arc<ConfigMap>
///     println!("{:?}", config.data);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Lazy<K: Object> {
    state: Arc<State<K>>,
}

struct State<K> {
    meta: Meta,
    object: Result<Arc<K>, DecodeError>,
}

impl<K: Object> Lazy<K> {
    /// Wraps an object that is decoded already, as tests of predicates and handlers do.
    ///
    /// `None` if it has no name, or no namespace although its kind is namespaced: no object read from an API server is
    /// like that.
    pub fn of(object: impl Into<Arc<K>>) -> Option<Self> {
        Self::decoded(object.into(), &mut Interner::default())
    }

    pub(super) fn decoded(object: Arc<K>, interner: &mut Interner) -> Option<Self> {
        let meta = Meta::new(&RawMeta::of(object.meta()), interner)?;
        Self::new(meta, Ok(object))
    }

    /// `None` if the metadata are those of another scope.
    pub(super) fn new(meta: Meta, object: Result<Arc<K>, DecodeError>) -> Option<Self> {
        ObjectKey::<K>::of_meta(&meta)?;
        Some(Self { state: Arc::new(State { meta, object }) })
    }

    /// The metadata, without decoding anything.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.state.meta
    }

    /// The object's key.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a state without a key cannot be made")]
    pub fn key(&self) -> ObjectKey<K> {
        ObjectKey::of_meta(&self.state.meta).expect("a state is made only if it has a key")
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// It does not fit `K`.
    pub fn object(&self) -> Result<Arc<K>, DecodeError> {
        self.state.object.clone()
    }

    /// Whether both are the same handle's.
    #[cfg(test)]
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl<K: Object> Clone for Lazy<K> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

/// Key and version.
impl<K: Object> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.meta(), f)
    }
}
