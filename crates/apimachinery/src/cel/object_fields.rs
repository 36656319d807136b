//! Fields that expressions see of every Kubernetes object, whether its schema declares them or not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Returns the schemas of the type and the names of an object. They replace the schemas of these fields in `properties`, the declared
/// properties of the object. The result is empty if `properties` declares all of them as texts: then the declared schemas apply.
pub(super) fn object_fields(properties: &Value) -> BTreeMap<&'static str, Value> {
    let text = json!({"type": "string"});
    let names = &properties["metadata"]["properties"];
    let are_declared = properties["metadata"]["type"] == "object"
        && [&properties["kind"], &properties["apiVersion"], &names["name"], &names["generateName"]]
            .iter()
            .all(|field| field["type"] == "string");
    if are_declared {
        return BTreeMap::new();
    }
    let metadata = json!({"type": "object", "properties": {"name": text, "generateName": text}});
    BTreeMap::from([("kind", text.clone()), ("apiVersion", text), ("metadata", metadata)])
}
