//! Merge of an applied object into the live one: applied values replace live ones, and all other live values stay.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::set::PathElement;
use super::typed::{Elements, Fields, Shape, Ty};

/// Merges `applied` into `live`.
///
/// # Errors
/// Fails if a list element in `live` has no identity, because nothing can be merged with it.
pub(super) fn merge(ty: Ty<'_>, live: &mut Value, applied: &Value) -> Result<(), String> {
    match ty.shape(applied) {
        Shape::Scalar(_) | Shape::Atomic(_) => live.clone_from(applied),
        Shape::Map(fields) => return merge_map(fields, live, applied),
        Shape::List(elements) => {
            // A null or absent list counts as an empty one, and the applied list replaces it with its own order.
            let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
            if empty(live) {
                live.clone_from(applied);
            } else if let (Value::Array(old), Value::Array(new)) = (live, applied) {
                let merged = merge_list(elements, std::mem::take(old), new)?;
                *old = merged;
            }
        }
    }
    Ok(())
}

fn merge_map(fields: Fields<'_>, live: &mut Value, applied: &Value) -> Result<(), String> {
    // Any value that is not an object counts as an empty one.
    let live_is_empty = live.as_object().is_none_or(serde_json::Map::is_empty);
    let (Value::Object(old), Value::Object(new), false) = (&mut *live, applied, live_is_empty) else {
        // An applied null requires a map, but not an empty one: existing entries stay.
        if live_is_empty {
            live.clone_from(applied);
        }
        return Ok(());
    };
    for (name, value) in new {
        match (old.get_mut(name), fields.field(name)) {
            (Some(present), Some(ty)) => {
                merge(ty, present, value).map_err(|error| format!(".{name}{error}"))?;
            }
            // The schema check has refused undeclared fields. Replacing the value is the fallback if it did not.
            (Some(present), None) => present.clone_from(value),
            (None, _) => {
                old.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// Merges by identity. The result has the order of `new`; elements that only `old` has keep their place
/// among their neighbors.
fn merge_list(elements: Elements<'_>, old: Vec<Value>, new: &[Value]) -> Result<Vec<Value>, String> {
    let identity = |(index, item): (usize, &Value)| {
        elements.identity(item).map_err(|error| format!(": element {index}: {error}"))
    };
    let old_ids: Vec<PathElement> = old.iter().enumerate().map(identity).collect::<Result<_, _>>()?;
    let new_ids: Vec<PathElement> = new.iter().enumerate().map(identity).collect::<Result<_, _>>()?;
    let new_index: BTreeMap<&PathElement, usize> = new_ids.iter().zip(0..).collect();
    // Live elements with the same identity are not merged, because it is undefined which of them is meant: the applied element replaces
    // all of them.
    let mut old_index: BTreeMap<&PathElement, Option<usize>> = BTreeMap::new();
    for (index, id) in old_ids.iter().enumerate() {
        old_index.entry(id).and_modify(|first| *first = None).or_insert(Some(index));
    }
    let mut old: Vec<Option<Value>> = old.into_iter().map(Some).collect();
    // Elements of both lists, in the new order.
    let mut shared: VecDeque<&PathElement> = new_ids.iter().filter(|id| old_index.contains_key(id)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged = vec![false; new.len()];
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut l, mut r) = (0, 0);
    while l < old.len() || r < new.len() {
        if l < old.len() && r < new.len() && old_ids[l] != new_ids[r] {
            // The element is in both lists, but another shared element comes first in the new order.
            let waits =
                new_index.contains_key(&old_ids[l]) && next_shared.is_some_and(|next| *next != old_ids[l]);
            if waits {
                l += 1;
                continue;
            }
        }
        let together = l < old.len() && r < new.len() && old_ids[l] == new_ids[r];
        if l < old.len() && !together {
            match new_index.get(&old_ids[l]) {
                // Only the old list has the element: it stays in its place.
                None => {
                    out.extend(old[l].take());
                    l += 1;
                    continue;
                }
                // The element is already in the result, because it comes earlier in the new list.
                Some(index) if merged[*index] => l += 1,
                Some(_) => {}
            }
        }
        if r < new.len() {
            let id = &new_ids[r];
            merged[r] = true;
            let present = old_index.get(id).copied().flatten().and_then(|index| old[index].take());
            out.push(match present {
                Some(mut item) => {
                    merge(elements.ty(), &mut item, &new[r]).map_err(|error| format!("{id}{error}"))?;
                    item
                }
                None => new[r].clone(),
            });
            r += 1;
            if together {
                l += 1;
            }
            if together || next_shared == Some(id) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok(out)
}
