//! State of an object after a commit.

use serde_json::Value;

use super::{Masks, without_volatile_fields};

/// An object as the API server has it, and the part of it that is compared. The part is made once for each commit, because every comparison
/// of worlds needs it.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectState {
    pub(crate) whole: Value,
    /// The object without fields that change with every write and without masked ones; `null` if the resource is not compared.
    pub(crate) compared: Value,
}

impl ObjectState {
    /// State of an object that is compared.
    pub(crate) fn new(resource: &str, whole: Value, masks: &Masks) -> Self {
        let compared = without_volatile_fields(resource, &whole, masks);
        Self { whole, compared }
    }

    /// State of an object that is not compared.
    pub(crate) fn uncompared(whole: Value) -> Self {
        Self { whole, compared: Value::Null }
    }
}
