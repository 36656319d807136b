//! UID and resourceVersion as preconditions of a request.

use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call::{Call, Verb};

/// Expected UID and version of the object of a request. The API server answers with a conflict if they differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::client) struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::client) uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::client) resource_version: Option<String>,
}

/// Paths of UID and resourceVersion in a JSON patch.
const UID: &str = "/metadata/uid";
const RESOURCE_VERSION: &str = "/metadata/resourceVersion";

impl Preconditions {
    /// Preconditions from the metadata of an object.
    pub(in crate::client) fn of(meta: &ObjectMeta) -> Self {
        Self { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() }
    }

    /// Removes UID and version from an object given as JSON, and returns them as preconditions.
    pub(in crate::client) fn take_from(object: &mut Value) -> Self {
        let preconditions = Self::written_in(&object["metadata"]);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
            metadata.remove("resourceVersion");
        }
        preconditions
    }

    /// The preconditions in the body of a call.
    pub(in crate::client) fn sent_by(call: &Call) -> Self {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        match &body {
            _ if call.verb == Verb::Delete => Self::written_in(&body["preconditions"]),
            Value::Array(operations) => {
                let value_at = |path: &str| {
                    let found = operations.iter().find(|operation| operation["path"] == path)?;
                    found["value"].as_str().map(ToOwned::to_owned)
                };
                Self { uid: value_at(UID), resource_version: value_at(RESOURCE_VERSION) }
            }
            _ => Self::written_in(&body["metadata"]),
        }
    }

    fn written_in(fields: &Value) -> Self {
        Self::deserialize(fields).unwrap_or_default()
    }

    pub(in crate::client) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the preconditions to a patch.
    ///
    /// The API server compares the resourceVersion of the patched object with the stored one, so a patch that sets an outdated
    /// version is refused with a conflict. The `test` operation of a JSON patch would instead fail as an invalid patch.
    pub(in crate::client) fn add_to(self, patch: &mut Value) {
        for (path, value) in [(UID, self.uid), (RESOURCE_VERSION, self.resource_version)] {
            let Some(value) = value else { continue };
            match patch {
                Value::Array(operations) => {
                    operations.insert(0, json!({ "op": "replace", "path": path, "value": value }));
                }
                Value::Object(fields) => {
                    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
                    if let (Value::Object(metadata), Some(field)) = (metadata, path.rsplit('/').next()) {
                        metadata.insert(field.to_owned(), value.into());
                    }
                }
                _ => {}
            }
        }
    }
}
