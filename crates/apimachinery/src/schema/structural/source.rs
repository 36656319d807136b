//! Access to a custom schema as `apiextensions-apiserver` reads it: absent, null and zero values are equal.

use serde_json::Value;

/// Value of `items`.
pub(super) enum Items<'a> {
    Absent,
    Schema(&'a Value),
    /// A list of schemas, which custom schemas may not use.
    List(&'a [Value]),
}

/// Value of `additionalProperties`.
pub(super) enum Additional<'a> {
    Absent,
    Any,
    Nothing,
    Schema(&'a Value),
}

/// Returns a field that is present and not null.
pub(super) fn given<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|value| !value.is_null())
}

/// Returns a text; empty if it is absent.
pub(super) fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema[name].as_str().unwrap_or_default()
}

/// Whether a flag is set.
pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

/// Returns a list; empty if it is absent.
pub(super) fn list<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema[name].as_array().map_or(&[], Vec::as_slice)
}

/// Iterates over the entries of a map of schemas.
pub(super) fn entries<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    schema[name].as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

/// Returns a property.
pub(super) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema["properties"].get(name)
}

/// Whether a map of schemas has entries.
pub(super) fn has_entries(schema: &Value, name: &str) -> bool {
    entries(schema, name).next().is_some()
}

/// Returns `items`.
pub(super) fn items(schema: &Value) -> Items<'_> {
    match &schema["items"] {
        items @ Value::Object(_) => Items::Schema(items),
        Value::Array(schemas) => Items::List(schemas),
        // Go's decoder takes numbers, strings and booleans for null here.
        _ => Items::Absent,
    }
}

/// Returns the single schema of `items`.
pub(super) fn item(schema: &Value) -> Option<&Value> {
    match items(schema) {
        Items::Schema(item) => Some(item),
        Items::Absent | Items::List(_) => None,
    }
}

/// Returns `additionalProperties`.
pub(super) fn additional(schema: &Value) -> Additional<'_> {
    match &schema["additionalProperties"] {
        Value::Null => Additional::Absent,
        Value::Bool(true) => Additional::Any,
        Value::Bool(false) => Additional::Nothing,
        schema => Additional::Schema(schema),
    }
}

/// Returns the schema of values with undeclared names.
pub(super) fn additional_schema(schema: &Value) -> Option<&Value> {
    match additional(schema) {
        Additional::Schema(schema) => Some(schema),
        Additional::Absent | Additional::Any | Additional::Nothing => None,
    }
}

/// Whether a field's value equals that of an absent field.
pub(super) fn is_zero(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => {
            // A pointer to `false` differs from an absent one.
            !matches!(name, "additionalProperties" | "additionalItems" | "default" | "example")
                && name != "x-kubernetes-preserve-unknown-fields"
                || value.is_null()
        }
        Value::String(text) => {
            text.is_empty()
                && !matches!(
                    name,
                    "$ref" | "default" | "example" | "x-kubernetes-list-type" | "x-kubernetes-map-type"
                )
        }
        _ => false,
    }
}

/// Whether the structure of a schema can be checked: neither the schema nor a schema inside has a keyword that no structural schema can
/// have.
pub(in super::super) fn is_convertible(schema: &Value) -> bool {
    let unsupported = !text(schema, "id").is_empty()
        || !text(schema, "$schema").is_empty()
        || !text(schema, "$ref").is_empty()
        || ["patternProperties", "dependencies", "definitions"].iter().any(|name| has_entries(schema, name))
        || given(schema, "additionalItems").is_some()
        || schema["items"].as_array().is_some_and(|items| !items.is_empty())
        || schema["x-kubernetes-preserve-unknown-fields"] == false;
    !unsupported
        && entries(schema, "properties").all(|(_, child)| is_convertible(child))
        && item(schema).is_none_or(is_convertible)
        && additional_schema(schema).is_none_or(is_convertible)
        && ["allOf", "anyOf", "oneOf"].iter().all(|name| list(schema, name).iter().all(is_convertible))
        && given(schema, "not").is_none_or(is_convertible)
}
