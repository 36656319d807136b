//! Defaulting, and removal of nulls where null is not allowed.

use serde_json::Value;

use super::Cursor;

/// Treatment of a null that is not allowed and has no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// Drops it, as in the body of a request.
    Drop,
    /// Keeps it, so that validation refuses it, as in an applied configuration.
    Keep,
    /// Drops fields, and keeps entries of maps, as in a builtin kind: they become the zero value of their type.
    KeepEntries,
}

/// Sets defaults. `metadata` is not changed: it has no defaults, and [`super::coerce_metadata`] handles its
/// nulls.
pub(super) fn default(schema: Cursor<'_>, value: &mut Value, nulls: Nulls) {
    match value {
        Value::Object(fields) => {
            for (name, property) in schema.properties() {
                let Some(default) = property.default_value() else {
                    continue;
                };
                match fields.get_mut(name) {
                    None => {
                        fields.insert(name.to_owned(), default.clone());
                    }
                    Some(present) if present.is_null() && !property.nullable() => *present = default.clone(),
                    Some(_) => {}
                }
            }
            fields.retain(|name, value| {
                let property = schema.property(name);
                let is_entry = property.is_none();
                let Some(schema) = property.or_else(|| schema.additional()) else {
                    return true;
                };
                if value.is_null() && !schema.nullable() {
                    let Some(replacement) = schema.default_value() else {
                        return nulls == Nulls::Keep || (nulls == Nulls::KeepEntries && is_entry);
                    };
                    *value = replacement.clone();
                }
                default(schema, value, nulls);
                true
            });
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else {
                return;
            };
            for item in items {
                if item.is_null()
                    && !schema.nullable()
                    && let Some(replacement) = schema.default_value()
                {
                    *item = replacement.clone();
                }
                default(schema, item, nulls);
            }
        }
        _ => {}
    }
}
