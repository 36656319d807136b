//! Whether a type has a field `status`.

use std::{cell::Cell, fmt};

use serde::{
    de::{self, DeserializeOwned, Visitor},
    forward_to_deserialize_any,
};

/// Returns whether `K` deserializes as a struct with the field `status`.
///
/// Types that derive `kube::CustomResource`, and those of `k8s-openapi`, pass the names of their fields to the deserializer before
/// it reads anything. Generic code needs this, because no trait marks all kinds with a status.
pub(crate) fn has_status<K: DeserializeOwned>() -> bool {
    let found = Cell::new(false);
    // Always an error: nothing is read.
    let _ = K::deserialize(FieldNames { found: &found });
    found.get()
}

/// Deserializer of nothing, which records whether a struct has the field.
struct FieldNames<'f> {
    found: &'f Cell<bool>,
}

#[derive(Debug)]
struct NothingReadError;

impl fmt::Display for NothingReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing is read")
    }
}

impl std::error::Error for NothingReadError {}

impl de::Error for NothingReadError {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'de> de::Deserializer<'de> for FieldNames<'_> {
    type Error = NothingReadError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NothingReadError> {
        Err(NothingReadError)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NothingReadError> {
        self.found.set(fields.contains(&"status"));
        Err(NothingReadError)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod},
    };
    use kube::core::{DynamicObject, PartialObjectMeta};

    use super::*;

    #[test]
    fn types_of_kinds_name_their_status() {
        assert!(has_status::<Deployment>());
        assert!(has_status::<Pod>());
        assert!(!has_status::<ConfigMap>());
        assert!(!has_status::<PartialObjectMeta<Deployment>>());
        assert!(!has_status::<DynamicObject>());
    }
}
