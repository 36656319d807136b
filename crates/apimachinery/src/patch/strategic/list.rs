//! Strategic merge of lists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::order::{ElementKey, Keyed};
use super::{DIRECTIVE, merge_fields, no_merge_key, rejected, unknown_directive};
use crate::go;
use crate::schema::{Cursor, PatchStrategy};
use crate::status::ApiError;

/// Merges `patch` into `original`; `schema` describes the elements.
pub(super) fn merge(
    schema: Option<Cursor<'_>>,
    strategy: &PatchStrategy,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, ApiError> {
    // A list without the strategy `merge` is atomic.
    if !strategy.merge {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    check_types(&original, &patch)?;
    let key = Keyed(strategy.merge_key.as_deref());
    // The types were checked to be equal, so one element stands for all.
    let are_objects = original.first().or(patch.first()).is_some_and(Value::is_object);
    if !are_objects {
        // The identity of a scalar is its value: keep the first element of each value.
        let mut seen = BTreeSet::new();
        let merged: Vec<Value> =
            original.iter().chain(&patch).filter(|item| seen.insert(ElementKey::of(item))).cloned().collect();
        return Keyed(None).arrange(merged, &patch, &original);
    }
    let Some(name) = key.0 else {
        let of = schema.map_or("", Cursor::type_name);
        return Err(ApiError::internal(format!("cannot merge lists without merge key for {of}")));
    };
    let (original, patch) = take_special(original, patch, name)?;
    let mut merged = original.clone();
    let mut places = key.places(&original);
    for item in &patch {
        let Value::Object(fields) = item else {
            continue;
        };
        let value = fields.get(name).ok_or_else(|| no_merge_key(fields, name))?;
        let identity = ElementKey::of(value);
        match places.find(Some(&identity)) {
            Some(place) => {
                // The element is taken out of the list, so that the merge can move its fields.
                if let Value::Object(old) = merged[place].take() {
                    merged[place] = Value::Object(merge_fields(schema, old, fields.clone())?);
                }
            }
            None => {
                // Unlike a new field, a new element keeps its nulls and the directives in it.
                places.add(identity, merged.len());
                merged.push(item.clone());
            }
        }
    }
    key.arrange(merged, &patch, &original)
}

/// Applies the elements that are directives, and returns both lists without them.
fn take_special(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let mut plain = Vec::new();
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = &item else {
            continue;
        };
        match fields.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) if directive == "delete" => {
                deleted.push(fields.get(key).ok_or_else(|| no_merge_key(fields, key))?.clone());
            }
            // `replace` is an element of its own: it applies to the list and not to an element.
            Some(directive) if directive == "replace" => replace = true,
            Some(directive) if directive == "merge" => {
                return Err(ApiError::internal("merging lists cannot yet be specified in the patch"));
            }
            Some(directive) => return Err(unknown_directive(directive, fields)),
        }
    }
    // All elements are removed in one pass, because both lists may be long.
    remove(&mut original, &deleted, Keyed(Some(key)));
    // With `replace` the elements of the patch are the result, and nothing is merged into them.
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

/// Removes the elements that have an identity among `unwanted`.
pub(super) fn remove(list: &mut Vec<Value>, unwanted: &[Value], key: Keyed<'_>) {
    let unwanted: BTreeSet<ElementKey> = unwanted.iter().map(ElementKey::of).collect();
    list.retain(|item| key.identity(item).is_none_or(|identity| !unwanted.contains(&identity)));
}

/// Checks that all elements have one type, and are not lists.
pub(super) fn check_types(original: &[Value], patch: &[Value]) -> Result<(), ApiError> {
    let mut types = original.iter().chain(patch).map(go::type_of);
    let Some(first) = types.next() else {
        return Err(ApiError::internal("no elements in any of the given slices"));
    };
    if first == "[]interface {}" {
        return Err(rejected());
    }
    if types.all(|other| other == first) {
        return Ok(());
    }
    let lists = [Value::from(original), Value::from(patch)];
    Err(ApiError::internal(format!(
        "list element types are not identical: {}",
        go::value(&Value::from(&lists[..]))
    )))
}
