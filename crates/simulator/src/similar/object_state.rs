//! State of an object after a commit.

use std::sync::OnceLock;

use kube_apiserver_embedded::CommittedObject;
use serde_json::Value;

use super::{Masks, compared_part::compared_part, without_volatile_fields};

/// An object as the API server has it, and the part of it that is compared. The part is made once for each commit, because every comparison
/// of worlds needs it. The whole object is parsed when it is first read, which most runs never do.
#[derive(Debug)]
pub(crate) struct ObjectState {
    source: CommittedObject,
    /// Whether `compared` may lack metadata such as the uid, because fields are masked or the object is not compared.
    is_masked: bool,
    whole: OnceLock<Value>,
    /// The object without fields that change with every write and without masked ones; `null` if the resource is not compared.
    pub(crate) compared: Value,
}

impl ObjectState {
    /// State of an object that is compared.
    pub(crate) fn new(resource: &str, object: impl Into<CommittedObject>, masks: &Masks) -> Self {
        let mut state = Self { is_masked: masks.concern(resource), ..Self::uncompared(object) };
        let part =
            // Masks are removed from a tree, so an object with masks is parsed as a whole.
            if state.is_masked { None } else { state.source.with_text(|text| compared_part(resource, text)) };
        state.compared = part.unwrap_or_else(|| without_volatile_fields(resource, state.whole(), masks));
        state
    }

    /// State of an object that is not compared.
    pub(crate) fn uncompared(object: impl Into<CommittedObject>) -> Self {
        Self { source: object.into(), is_masked: true, whole: OnceLock::new(), compared: Value::Null }
    }

    /// The whole object, without `kind` and `apiVersion`.
    pub(crate) fn whole(&self) -> &Value {
        self.whole.get_or_init(|| self.source.to_value())
    }

    /// Text of a field of the metadata that no write changes; empty if the object lacks it.
    pub(crate) fn metadata_text(&self, field: &str) -> &str {
        let object = if self.is_masked { self.whole() } else { &self.compared };
        object["metadata"][field].as_str().unwrap_or_default()
    }
}

/// States are equal if the whole objects are: equal runs have equal masks.
impl PartialEq for ObjectState {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}
