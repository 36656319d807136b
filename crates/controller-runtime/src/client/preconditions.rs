use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Call, Verb};

/// Which object a request is about, and in which version: that another one is there is a conflict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_version: Option<String>,
}

/// Where a JSON patch writes them.
const UID: &str = "/metadata/uid";
const RESOURCE_VERSION: &str = "/metadata/resourceVersion";

impl Preconditions {
    /// That it is the object of this metadata, as it is there.
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() }
    }

    /// The same of an object that is given as JSON, which then is without.
    pub(super) fn take_from(object: &mut Value) -> Self {
        let preconditions = Self::written_in(&object["metadata"]);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
            metadata.remove("resourceVersion");
        }
        preconditions
    }

    /// Those that a call has in its body.
    pub(super) fn sent_by(call: &Call) -> Self {
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

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds them to a patch.
    ///
    /// The API server compares the version that a patched object has with the stored one, so a patch that writes it is
    /// refused with a conflict if it has become another; the `test` of a JSON patch would fail as if the patch were wrong.
    pub(super) fn add_to(self, patch: &mut Value) {
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
