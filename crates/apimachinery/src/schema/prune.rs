//! Pruning of undeclared fields, and listing them for warnings and strict decoding.

use serde_json::Value;

use super::Cursor;
use super::node::ValueKind;
use super::object_meta::is_type_meta;
use crate::field_path::FieldPath;

/// Removes undeclared fields.
pub(super) fn prune(schema: Cursor<'_>, object: &mut Value) {
    walk(Some(schema), object, TypeFields::Kept);
}

/// Like [`prune`], but for a part of an object, in which `apiVersion` and `kind` are fields like any other.
pub(super) fn prune_part(schema: Cursor<'_>, value: &mut Value) {
    walk(Some(schema), value, TypeFields::Unknown);
}

/// Treatment of `apiVersion` and `kind` in an object, unless its schema declares them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TypeFields {
    /// They stay, as in each whole object.
    Kept,
    /// They are unknown fields, as in a part of an object.
    Unknown,
}

fn walk(schema: Option<Cursor<'_>>, value: &mut Value, type_fields: TypeFields) {
    match value {
        Value::Object(fields) => {
            let Some(schema) = schema else {
                fields.clear();
                return;
            };
            fields.retain(|name, value| match step(schema, name, type_fields) {
                FieldMeaning::Into(schema) => {
                    walk(schema, value, TypeFields::Unknown);
                    true
                }
                FieldMeaning::Keep => true,
                FieldMeaning::Unknown => false,
            });
        }
        Value::Array(items) => {
            if schema.is_some_and(keeps_everything) {
                return;
            }
            // Nothing below `additionalProperties: true` has a schema: all objects there lose their fields, also those in lists.
            let items_schema = schema.and_then(Cursor::items);
            for item in items {
                walk(items_schema, item, TypeFields::Unknown);
            }
        }
        _ => {}
    }
}

/// Whether the path of an undeclared field contains the keys of maps that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKeys {
    /// As for a body.
    Shown,
    /// As for the result of a strategic merge patch, which Go converts from maps to structs.
    Omitted,
}

/// Returns the paths of undeclared fields, sorted. Those in the metadata of embedded objects come last, because Go reads these metadata after
/// it has pruned the rest.
pub(super) fn unknown_fields(schema: Cursor<'_>, object: &Value, keys: MapKeys) -> Vec<String> {
    let mut found =
        UnknownFields { keys, fields: Vec::new(), embedded_metadata: Vec::new(), is_in_metadata: false };
    find(Some(schema), object, &FieldPath::root(), &mut found);
    found.fields.sort();
    found.embedded_metadata.sort();
    found.fields.append(&mut found.embedded_metadata);
    found.fields
}

struct UnknownFields {
    keys: MapKeys,
    fields: Vec<String>,
    /// Fields in the metadata of objects inside the object.
    embedded_metadata: Vec<String>,
    /// Whether the search is in such metadata.
    is_in_metadata: bool,
}

impl UnknownFields {
    fn add(&mut self, path: &FieldPath<'_>) {
        let fields = if self.is_in_metadata { &mut self.embedded_metadata } else { &mut self.fields };
        fields.push(path.to_string());
    }
}

fn find(schema: Option<Cursor<'_>>, value: &Value, path: &FieldPath<'_>, found: &mut UnknownFields) {
    // These types of Go have decoders of their own, which ignore unknown fields.
    if schema.is_some_and(|schema| matches!(schema.kind(), ValueKind::Opaque)) {
        return;
    }
    match value {
        Value::Object(fields) => {
            let is_embedded = schema.is_some_and(Cursor::is_embedded_resource);
            for (name, value) in fields {
                let parent = path;
                let path = path.field(name);
                let type_fields = if path.is_top_level() { TypeFields::Kept } else { TypeFields::Unknown };
                match schema.map_or(FieldMeaning::Unknown, |schema| step(schema, name, type_fields)) {
                    FieldMeaning::Into(inner) => {
                        let was_in_metadata = found.is_in_metadata;
                        found.is_in_metadata |= is_embedded && name == "metadata" && !path.is_top_level();
                        let is_entry = schema.is_some_and(|schema| schema.property(name).is_none());
                        let is_omitted = found.keys == MapKeys::Omitted && is_entry;
                        find(inner, value, if is_omitted { parent } else { &path }, found);
                        found.is_in_metadata = was_in_metadata;
                    }
                    FieldMeaning::Keep => {}
                    FieldMeaning::Unknown => found.add(&path),
                }
            }
        }
        Value::Array(items) => {
            if schema.is_some_and(keeps_everything) {
                return;
            }
            let items_schema = schema.and_then(Cursor::items);
            for (index, item) in items.iter().enumerate() {
                find(items_schema, item, &path.index(index), found);
            }
        }
        _ => {}
    }
}

/// Meaning of a field name in an object.
enum FieldMeaning<'a> {
    /// A declared field: continue with its schema. With `None`, all objects inside are emptied.
    Into(Option<Cursor<'a>>),
    /// An undeclared field that is kept unchanged.
    Keep,
    Unknown,
}

fn step<'a>(schema: Cursor<'a>, name: &str, type_fields: TypeFields) -> FieldMeaning<'a> {
    if let Some(property) = schema.property(name) {
        FieldMeaning::Into(Some(property))
    } else if let Some(additional) = schema.additional() {
        FieldMeaning::Into(Some(additional))
    } else if schema.preserves_unknown_fields() || type_fields == TypeFields::Kept && is_type_meta(name) {
        FieldMeaning::Keep
    } else if schema.additional_any() {
        FieldMeaning::Into(None)
    } else {
        FieldMeaning::Unknown
    }
}

/// Whether a schema preserves unknown fields and does not describe the elements of an array.
fn keeps_everything(schema: Cursor<'_>) -> bool {
    schema.preserves_unknown_fields() && schema.items().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::Schema;

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn objects_without_a_schema_lose_their_fields_in_lists_too() {
        let schema = Schema::of_crd(&json!({"type": "object", "properties": {
            "any": {"type": "object", "additionalProperties": true},
        }}));
        let mut object = json!({"any": {"l": [{"x": 1}, 2], "n": [[{"z": 1}]], "o": {"y": 1}, "s": 1}});
        assert_eq!(schema.unknown_fields(&object), ["any.l[0].x", "any.n[0][0].z", "any.o.y"]);
        schema.prune(&mut object);
        assert_eq!(object, json!({"any": {"l": [{}, 2], "n": [[{}]], "o": {}, "s": 1}}));
    }
}
