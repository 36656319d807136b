//! How the objects of one kind are held: what they share, and how they come off the wire.

use std::{marker::PhantomData, sync::Arc};

use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::{
    decode_error::DecodeError,
    lazy::Lazy,
    meta::{Interner, Meta, RawMeta},
};
use crate::object::{Object, resource_name_of};

/// Holds the objects of one kind. An informer has one.
pub(crate) struct Shelf<K: Object> {
    /// As messages name it.
    resource: String,
    interner: Mutex<Interner>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Object> Shelf<K> {
    /// For the objects of the kind that `info` says.
    pub(crate) fn new(info: &K::DynamicType) -> Self {
        Self { resource: resource_name_of::<K>(info), interner: Mutex::default(), kind: PhantomData }
    }

    /// Takes an object as it came over the wire. One that does not fit its type is reported, and held.
    ///
    /// `None`, reported as well, if it has no name, or no namespace although its kind is namespaced.
    pub(crate) fn take(&self, json: &RawValue) -> Option<Lazy<K>> {
        let raw = RawMeta::read(json).unwrap_or_default();
        let held = Meta::new(&raw, &mut self.interner.lock()).and_then(|meta| {
            let object = self.decode(json, &meta);
            if let Err(error) = &object {
                let resource = &*self.resource;
                tracing::error!(resource, object = %meta, "an object is unreadable: {error:?}");
            }
            Lazy::new(meta, object)
        });
        if held.is_none() {
            tracing::error!(
                resource = &*self.resource,
                "an object is left out of the cache: it has no name, or no namespace although its kind is namespaced"
            );
        }
        held
    }

    /// Takes an object that is decoded already. `None` if it has no name, or not the namespace that its kind needs.
    #[expect(dead_code, reason = "writes are laid over the cache next")]
    pub(crate) fn take_decoded(&self, object: impl Into<Arc<K>>) -> Option<Lazy<K>> {
        Lazy::decoded(object.into(), &mut self.interner.lock())
    }

    fn decode(&self, json: &RawValue, meta: &Meta) -> Result<Arc<K>, DecodeError> {
        match serde_json::from_str::<K>(json.get()) {
            Ok(mut object) => {
                object.meta_mut().managed_fields = None;
                Ok(Arc::new(object))
            }
            Err(_) => Err(self.explain(json, meta)),
        }
    }

    /// Decodes once more, to learn where it fails: keeping track of the place costs time.
    fn explain(&self, json: &RawValue, meta: &Meta) -> DecodeError {
        let mut deserializer = serde_json::Deserializer::from_str(json.get());
        match serde_path_to_error::deserialize::<_, K>(&mut deserializer) {
            Err(error) => {
                DecodeError::new(&self.resource, meta, error.path().to_string(), error.into_inner())
            }
            Ok(_) => DecodeError::new(
                &self.resource,
                meta,
                ".".to_owned(),
                "it was refused once and accepted the next time",
            ),
        }
    }
}
