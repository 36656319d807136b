//! `apiVersion`, `kind` and `metadata`: the fields that every object has, whatever its schema says.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::go_decoding;
use super::node::{Child, Definitions, JsonType, MetadataSchema, SchemaNode, ValueKind};
use super::schema_parser;
use super::{Cursor, Schema};
use crate::field_path::FieldPath;
use crate::go::{self, Layout};

/// `meta.v1.ObjectMeta`, for schemas without the builtin definitions.
static OBJECT_META: LazyLock<Arc<SchemaNode>> = LazyLock::new(|| {
    let strings = || json!({"type": "object", "additionalProperties": {"type": "string", "default": ""}});
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "date-time"});
    Arc::new(schema_parser::standalone(&json!({
        "type": "object",
        "properties": {
            "annotations": strings(),
            "creationTimestamp": time(),
            "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "deletionTimestamp": time(),
            "finalizers": {
                "type": "array", "items": {"type": "string", "default": ""}, "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": text(),
            "generation": {"type": "integer", "format": "int64"},
            "labels": strings(),
            "managedFields": {
                "type": "array", "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object", "default": {},
                    "properties": {
                        "apiVersion": text(), "fieldsType": text(), "manager": text(), "operation": text(),
                        "subresource": text(), "time": time(),
                        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                },
            },
            "name": text(),
            "namespace": text(),
            "ownerReferences": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
                "items": {
                    "type": "object", "default": {}, "x-kubernetes-map-type": "atomic",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": {"type": "string", "default": ""}, "kind": {"type": "string", "default": ""},
                        "name": {"type": "string", "default": ""}, "uid": {"type": "string", "default": ""},
                        "blockOwnerDeletion": {"type": "boolean"}, "controller": {"type": "boolean"},
                    },
                },
            },
            "resourceVersion": text(),
            "selfLink": text(),
            "uid": text(),
        },
    })))
});

static STRING: LazyLock<Arc<SchemaNode>> =
    LazyLock::new(|| Arc::new(SchemaNode { kind: ValueKind::Of(JsonType::String), ..SchemaNode::default() }));

/// Whether a field is `apiVersion` or `kind`.
pub(super) fn is_type_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

/// Adds the fields that every object has. A custom schema may restrict `metadata.name`; the restriction only affects validation and does
/// not replace the schema of `metadata`.
pub(super) fn declare(node: &mut SchemaNode) {
    for name in ["apiVersion", "kind"] {
        if node.properties.get(name).is_none() {
            node.properties.insert(name, Child::inline(Arc::clone(&STRING)));
        }
    }
    let restricted = node.properties.insert("metadata", Child::inline(Arc::clone(&OBJECT_META)));
    node.metadata_rules = MetadataSchema::OfObject(restricted);
}

/// Converts `metadata` of a custom object as Go's `ObjectMeta` does: a null label becomes an empty string; other nulls
/// and empty collections are dropped. Embedded objects are converted too.
///
/// # Errors
/// Go's decoding error if a field has the wrong type, such as `json: cannot unmarshal number into Go struct field
/// ObjectMeta.labels of type string`.
pub fn coerce_metadata(schema: &Schema, object: &mut Value) -> Result<(), String> {
    coerce(schema.root(), object, &FieldPath::root())
}

/// Like [`coerce_metadata`], for an object in the storage: fields with a wrong type are dropped.
pub fn coerce_stored_metadata(schema: &Schema, object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, value| {
            let mut alone = Map::from_iter([("metadata".to_owned(), json!({name.as_str(): value}))]);
            coerce_one(&mut alone).is_ok()
        });
    }
    // Embedded objects have been validated, and the rest has been checked, so this does not fail.
    let _ = coerce_metadata(schema, object);
}

/// Returns Go's message if the `metadata` of an object cannot be decoded.
#[must_use]
pub fn metadata_error(object: &Value) -> Option<String> {
    coerce_one(&mut object.as_object()?.clone()).err()
}

/// Converts the metadata of the object at the root, and of all embedded objects.
fn coerce(schema: Cursor<'_>, value: &mut Value, path: &FieldPath<'_>) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            let is_embedded = !path.is_root() && schema.is_embedded_resource();
            if path.is_root() {
                coerce_one(fields)?;
            } else if is_embedded {
                coerce_embedded(fields, path)?;
            }
            for (name, value) in fields {
                if name == "metadata" && (path.is_root() || is_embedded) {
                    continue;
                }
                if let Some(schema) = schema.property(name) {
                    coerce(schema, value, &path.field(name))?;
                } else if let Some(schema) = schema.additional() {
                    coerce(schema, value, &path.key(name))?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce(schema, item, &path.index(index))?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Converts the metadata of an object at `path` inside another object.
fn coerce_embedded(fields: &mut Map<String, Value>, path: &FieldPath<'_>) -> Result<(), String> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_string()) {
            return Err(format!("{}: Invalid value: {value}: must be a string", path.field(name)));
        }
    }
    // Go decodes a null as metadata without fields.
    if let Some(metadata) = fields.get_mut("metadata").filter(|metadata| metadata.is_null()) {
        *metadata = json!({});
    }
    let metadata = fields.get("metadata").cloned();
    coerce_one(fields).map_err(|why| {
        let metadata = metadata.unwrap_or_default();
        format!("{}: Invalid value: {metadata}: {why}", path.field("metadata"))
    })
}

/// Converts the metadata of one object.
fn coerce_one(object: &mut Map<String, Value>) -> Result<(), String> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(());
    };
    let definitions = Definitions::none();
    let child = Child::inline(Arc::clone(&OBJECT_META));
    let schema = Cursor { definitions: &definitions, child: &child, node: &OBJECT_META };
    if let Some(error) = go_decoding::metadata_error(schema, metadata) {
        return Err(error);
    }
    super::default::default(schema, metadata, super::default::Nulls::Drop);
    let Value::Object(fields) = metadata else {
        object.remove("metadata");
        return Ok(());
    };
    for field in ["creationTimestamp", "deletionTimestamp"] {
        whole_seconds(fields.get_mut(field));
    }
    let entries = fields.get_mut("managedFields").and_then(Value::as_array_mut);
    entries.into_iter().flatten().for_each(|entry| whole_seconds(entry.get_mut("time")));
    fields.retain(|name, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        // A pointer in Go, so that zero is kept.
        Value::Number(_) if name == "deletionGracePeriodSeconds" => true,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Bool(_) => true,
    });
    Ok(())
}

/// Formats a time in whole seconds, in UTC.
fn whole_seconds(time: Option<&mut Value>) {
    let Some(value) = time else { return };
    let parsed = value.as_str().and_then(|text| go::time(text, Layout::Seconds).ok());
    if let Some(time) = parsed {
        *value = json!(go::format_seconds(time));
    }
}
