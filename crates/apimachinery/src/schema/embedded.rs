//! Kubernetes objects embedded in an object (`x-kubernetes-embedded-resource`).

use serde_json::Value;

use super::Cursor;
use crate::field_path::FieldPath;

/// Collects the embedded objects of `value` with their paths, outer ones first.
pub(super) fn find<'a>(
    schema: Cursor<'_>,
    value: &'a Value,
    path: &FieldPath<'_>,
    found: &mut Vec<(String, &'a Value)>,
) {
    match value {
        Value::Object(fields) => {
            if schema.is_embedded_resource() {
                found.push((path.to_string(), value));
            }
            for (name, value) in fields {
                if let Some(schema) = schema.property(name).or_else(|| schema.additional()) {
                    find(schema, value, &path.field(name), found);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    find(schema, item, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}
