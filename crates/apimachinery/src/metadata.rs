//! `metadata` of objects: access to its fields, restoring of those that an update cannot change, and validation.

mod derived_name;
mod metadata_rules;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub use self::derived_name::DerivedName;
pub use self::metadata_rules::{
    Compared, MetadataRules, compare, validate, validate_contained, validate_embedded, validate_manager,
    validate_new_state,
};
use crate::go::{self, Layout};

/// Returns the `metadata` of an object, and adds it if missing.
pub fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    match metadata {
        Value::Object(fields) => fields,
        _ => unreachable!("it was just made an object"),
    }
}

/// Returns a text field of `metadata`; empty if absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether the object is being deleted. A time that Go cannot read, which an apply can set in a custom object, does not count.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    let time = text(object, "deletionTimestamp");
    !time.is_empty() && go::time(time, Layout::Seconds).is_ok()
}

/// Returns the finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list =
        object.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Returns an owned copy of the finalizers.
pub fn owned_finalizers(object: &Value) -> Vec<String> {
    finalizers(object).into_iter().map(str::to_owned).collect()
}

/// Sets the finalizers, or removes the field if the list is empty.
pub fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = of(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

/// Restores the fields that an update cannot change, before validation.
pub fn restore(old: &Value, new: &mut Value) {
    let before = old.get("metadata").unwrap_or(&Value::Null);
    let metadata = of(new);
    for field in ["creationTimestamp", "generation"] {
        match before.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    // Once an object is being deleted, its deletion time is restored; before that, setting it is an error.
    if let Some(time) = before.get("deletionTimestamp") {
        metadata.insert("deletionTimestamp".to_owned(), time.clone());
    }
    const GRACE: &str = "deletionGracePeriodSeconds";
    if let (Some(seconds), None | Some(Value::Null)) = (before.get(GRACE), metadata.get(GRACE)) {
        metadata.insert(GRACE.to_owned(), seconds.clone());
    }
    for field in ["uid", "name", "namespace"] {
        // An omitted value is restored; a different one is an error of `validate_against`.
        let empty = metadata.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
        if let (true, Some(value)) = (empty, before.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
}

/// Increments the generation, if the kind has one.
pub fn raise_generation(object: &mut Value) {
    let metadata = of(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".to_owned(), json!(generation.saturating_add(1)));
    }
}

/// Stage of a write at which duplicate owner references are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnersFrom {
    /// The object as the client sent it.
    Request,
    /// The object after mutating admission.
    Admission,
}

/// Removes duplicate owner references; returns the warning about them.
pub fn deduplicate_owners(object: &mut Value, from: OwnersFrom) -> Option<String> {
    let owners = of(object).get_mut("ownerReferences")?.as_array_mut().filter(|owners| owners.len() > 1)?;
    // Objects are sorted by key, so equal values have equal texts.
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut repeated: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let new = seen.insert(owner.to_string());
        if !new {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        new
    });
    let when = match from {
        OwnersFrom::Request => "",
        OwnersFrom::Admission => " after mutating admission happens",
    };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_owners_are_compared_quickly() {
        let owner = |n: usize| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": n.to_string()});
        let mut owners: Vec<Value> = (0..20_000).map(owner).collect();
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        assert_eq!(deduplicate_owners(&mut object, OwnersFrom::Request), None);
        owners.push(owner(7));
        object["metadata"]["ownerReferences"] = json!(owners);
        let warning = deduplicate_owners(&mut object, OwnersFrom::Request);
        assert!(warning.is_some_and(|text| text.ends_with("duplicate UID(s) observed: 7")));
        assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(20_000));
    }
}
