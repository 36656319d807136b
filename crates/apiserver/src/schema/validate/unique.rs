//! Uniqueness of the elements of sets and keyed lists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::Cursor;
use super::super::node::ListType;
use super::text;
use crate::path::Path;
use crate::status::FieldError;

/// Reports elements that equal, or have the keys of, an earlier one.
pub(super) fn check(schema: Cursor<'_>, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(elements) => {
            let mut seen = BTreeSet::new();
            for (index, element) in elements.iter().enumerate() {
                let identity = match schema.list_type() {
                    ListType::Atomic => continue,
                    ListType::Set => element.clone(),
                    ListType::Map(keys) => key(keys, element),
                };
                // Objects are sorted by key, so that equal identities have equal text.
                if !seen.insert(identity.to_string()) {
                    errors.push(text::duplicate(&path.index(index), &identity));
                }
            }
            if let Some(items) = schema.items() {
                for (index, element) in elements.iter().enumerate() {
                    check(items, element, &path.index(index), errors);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = schema.property(name).or_else(|| schema.additional()) {
                    check(schema, value, &path.field(name), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The elements of an old list by their keys. Elements of other lists have no identity.
pub(super) struct Counterparts<'a> {
    keys: &'a [String],
    old: BTreeMap<String, &'a Value>,
}

impl<'a> Counterparts<'a> {
    pub(super) fn of(schema: Cursor<'a>, old: Option<&'a Value>) -> Option<Self> {
        let ListType::Map(keys) = schema.list_type() else {
            return None;
        };
        // Of several with the same keys the first counts.
        let old = old?.as_array()?.iter().rev().map(|element| (key(keys, element).to_string(), element));
        Some(Self { keys, old: old.collect() })
    }

    /// The element that `element` is the new state of: that with the same keys.
    pub(super) fn find(&self, element: &Value) -> Option<&'a Value> {
        self.old.get(&key(self.keys, element).to_string()).copied()
    }
}

fn key(keys: &[String], element: &Value) -> Value {
    let key: Map<String, Value> =
        keys.iter().filter_map(|name| Some((name.clone(), element.get(name)?.clone()))).collect();
    Value::Object(key)
}
