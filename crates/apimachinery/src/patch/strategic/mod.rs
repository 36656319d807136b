//! Strategic merge patch: a merge patch that merges lists according to the schema and supports directives.
//!
//! The algorithm is that of `k8s.io/apimachinery/pkg/util/strategicpatch`:
//!
//! - Objects are merged; null removes a field. `$patch: replace` replaces the object, `$patch: delete` empties it, and `$retainKeys`
//!   removes all fields that it does not name.
//! - Lists with the strategy `merge` are merged: objects by their merge key, scalars as a set. Other lists are
//!   replaced. An element with `$patch: delete` removes the element with its key; `$patch: replace` keeps only the
//!   elements of the patch. `$deleteFromPrimitiveList/<field>` removes scalars; `$setElementOrder/<field>` orders the
//!   result.

mod list;
mod order;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::order::Keyed;
use super::rejected;
use crate::go;
use crate::schema::{Cursor, PatchStrategy, Schema};
use crate::status::ApiError;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

type JsonObject = Map<String, Value>;

/// Applies a strategic merge patch.
///
/// # Errors
///
/// As in kube-apiserver: 400 if a directive has the wrong form, 422 for lists of lists, and 500 for other errors, such as a missing merge
/// key.
pub fn strategic(schema: &Schema, target: &Value, patch: &Value) -> Result<Value, ApiError> {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(ApiError::bad_request("Invalid JSON document"));
    };
    let merged = merge_fields(Some(schema.root()), target.clone(), patch.clone())?;
    Ok(Value::Object(merged))
}

fn merge_fields(
    schema: Option<Cursor<'_>>,
    mut original: JsonObject,
    mut patch: JsonObject,
) -> Result<JsonObject, ApiError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(directive) if directive == "replace" => {
            // The directive itself is no field of the result.
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(directive) if directive == "delete" => return Ok(JsonObject::new()),
        Some(directive) => return Err(unknown_directive(directive, &patch)),
    }
    // `$retainKeys` comes before the merge, so that it never removes a field of the patch.
    retain_keys(&mut original, &mut patch)?;
    // Lists with an order come first. They are removed from the patch, and the loop below merges the other fields.
    let orders: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER)).cloned().collect();
    for key in orders {
        if let Some(order) = patch.remove(&key) {
            merge_in_order(schema, &mut original, &mut patch, &key[ORDER.len()..], order)?;
        }
    }
    for (key, change) in patch {
        match key.strip_prefix(DELETE_FROM) {
            Some(field) => delete_from(schema, &mut original, field, change)?,
            None => merge_field(schema, &mut original, key, change)?,
        }
    }
    Ok(original)
}

fn merge_field(
    schema: Option<Cursor<'_>>,
    original: &mut JsonObject,
    key: String,
    change: Value,
) -> Result<(), ApiError> {
    let merged = match (original.remove(&key), change) {
        // Null removes the field, which has already been taken out.
        (_, Value::Null) => return Ok(()),
        (Some(Value::Object(old)), Value::Object(change)) => {
            let (inner, strategy) = lookup(schema, &key)?;
            if strategy.replace {
                Some(Value::Object(change))
            } else {
                Some(Value::Object(merge_fields(inner, old, change)?))
            }
        }
        (Some(Value::Array(old)), Value::Array(change)) => {
            let (inner, strategy) = lookup(schema, &key)?;
            Some(Value::Array(list::merge(inner, &strategy, old, change)?))
        }
        // A value of another type replaces the old one and is treated as a new field.
        (_, change) => without_directives(change),
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// Applies `$deleteFromPrimitiveList`. The directive only changes the merge of a list of scalars: as in kube-apiserver, a value of any other type
/// is merged into a field of its type, as if it had no directive.
fn delete_from(
    schema: Option<Cursor<'_>>,
    original: &mut JsonObject,
    field: &str,
    unwanted: Value,
) -> Result<(), ApiError> {
    let Some(old) = original.get_mut(field) else { return Ok(()) };
    match (&mut *old, unwanted) {
        (_, Value::Null) => {
            original.remove(field);
        }
        (Value::Array(list), Value::Array(unwanted)) => {
            let (inner, strategy) = lookup(schema, field)?;
            if list.first().or(unwanted.first()).is_some_and(Value::is_object) {
                // Go merges these objects whatever the strategy of the list is.
                let strategy = PatchStrategy { merge: true, ..strategy };
                *list = list::merge(inner, &strategy, std::mem::take(list), unwanted)?;
            } else if !(list.is_empty() && unwanted.is_empty()) {
                list::check_types(list, &unwanted)?;
                list::remove(list, &unwanted, Keyed(None));
            }
        }
        (old, unwanted) if go::type_of(old) == go::type_of(&unwanted) => {
            merge_field(schema, original, field.to_owned(), unwanted)?;
        }
        _ => {}
    }
    Ok(())
}

/// Applies `$setElementOrder`: merges the list at once and orders the result.
fn merge_in_order(
    schema: Option<Cursor<'_>>,
    original: &mut JsonObject,
    patch: &mut JsonObject,
    field: &str,
    order: Value,
) -> Result<(), ApiError> {
    let list = |value: Value| match value {
        Value::Array(list) => Ok(list),
        other => Err(ApiError::internal(format!(
            "expected a []interface {{}}, but received a {}",
            // Go formats the missing type of null as a text, which it is not.
            if other.is_null() { "%!s(<nil>)" } else { go::type_of(&other) }
        ))),
    };
    let order = list(order)?;
    let old = original.get(field).cloned().map(list).transpose()?;
    let change = patch.get(field).cloned().map(list).transpose()?;
    if schema.is_some_and(|schema| schema.additional().is_some()) {
        // Maps, such as labels, have no lists to order.
        return Err(ApiError::internal(
            "merging an object in json but data type is not struct, instead is: map",
        ));
    }
    let (inner, strategy) = lookup(schema, field)?;
    let key = Keyed(strategy.merge_key.as_deref());
    if let Some(change) = &change {
        key.check_order(change, &order)?;
    }
    let merged = match (old.clone(), change) {
        (None, None) => return Ok(()),
        (Some(old), None) => old,
        (None, Some(change)) => match without_directives(Value::Array(change)) {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        },
        (Some(old), Some(change)) => list::merge(inner, &strategy, old, change)?,
    };
    let ordered = key.arrange(merged, &order, &old.unwrap_or_default())?;
    original.insert(field.to_owned(), Value::Array(ordered));
    // The loop over the other fields must not merge the list again.
    patch.remove(field);
    Ok(())
}

/// Applies `$retainKeys`.
fn retain_keys(original: &mut JsonObject, patch: &mut JsonObject) -> Result<(), ApiError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || ApiError::bad_request("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(malformed)?;
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_retained = |key: &String| retained.contains(key.as_str());
    // A field that the patch sets and does not retain would be lost. Such a patch is refused.
    let fits = patch.iter().all(|(key, value)| {
        value.is_null() || key.starts_with(DELETE_FROM) || key.starts_with(ORDER) || is_retained(key)
    });
    if !fits {
        return Err(malformed());
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

/// Returns the schema of a field, or of a list's elements, and its patch strategy.
fn lookup<'a>(
    schema: Option<Cursor<'a>>,
    field: &str,
) -> Result<(Option<Cursor<'a>>, PatchStrategy), ApiError> {
    let Some(schema) = schema else {
        return Ok((None, PatchStrategy::default()));
    };
    if let Some(place) = schema.property(field).or_else(|| schema.additional()) {
        // A merge patch looks up a list's field and needs the schema of its elements.
        return Ok((Some(place.items().unwrap_or(place)), place.patch().clone()));
    }
    // Free-form objects merge without a schema.
    if schema.preserves_unknown_fields() || !schema.declares_fields() {
        return Ok((None, PatchStrategy::default()));
    }
    Err(ApiError::internal(format!(
        "unable to find api field in struct {} for the json field {}",
        schema.type_name(),
        go::quote(field)
    )))
}

/// Returns a new value without its directives and nulls; `None` if nothing remains.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        // A null is dropped before directives are looked for.
        Value::Object(fields) if fields.get(DIRECTIVE).is_some_and(|directive| !directive.is_null()) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            let kept = kept.filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        // Elements with a directive disappear, too: a new list has nothing that they could apply to.
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

fn unknown_directive(directive: &Value, patch: &JsonObject) -> ApiError {
    let shown = match directive {
        Value::Null => "%!s(<nil>)".to_owned(),
        other => as_text(other),
    };
    let map = go::value(&Value::Object(patch.clone()));
    ApiError::internal(format!("unknown patch type: {shown} in map: {map}"))
}

/// Formats a value like Go's `%s`, which marks values that are not text, but not nils inside other values.
fn as_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", as_text(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", go::type_of(value), go::value(value)),
    }
}

fn no_merge_key(item: &JsonObject, key: &str) -> ApiError {
    let map = go::value(&Value::Object(item.clone()));
    ApiError::internal(format!("map: {map} does not contain declared merge key: {key}"))
}

#[cfg(test)]
mod tests;
