//! Uniqueness of elements in sets and keyed lists.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::super::Cursor;
use super::super::node::ListType;
use super::{Errors, text};
use crate::field_path::FieldPath;
use crate::status::FieldError;

/// Reports elements that equal an earlier element, or have its keys.
pub(super) fn check(schema: Cursor<'_>, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    match value {
        Value::Array(elements) => {
            if matches!(schema.list_type(), ListType::Map(_))
                && let Some(index) =
                    elements.iter().position(|element| !element.is_object() && !element.is_null())
            {
                let shown = text::value(&elements[index]);
                let why = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(path.index(index).to_string(), &shown, why));
            } else {
                duplicates(schema, elements, path, errors);
            }
            if let Some(items) = schema.items() {
                for (index, element) in elements.iter().enumerate() {
                    check(items, element, &path.index(index), errors);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                // Repeated finalizers and owners are not errors.
                if path.is_root() && name == "metadata" {
                    continue;
                }
                if let Some(schema) = schema.property(name).or_else(|| schema.additional()) {
                    check(schema, value, &path.field(name), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reports the second of equal elements. Like the library, it reports only this one.
fn duplicates(schema: Cursor<'_>, elements: &[Value], path: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen: BTreeMap<String, bool> = BTreeMap::new();
    for (index, element) in elements.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let identity = match schema.list_type() {
            ListType::Atomic => return,
            ListType::Set => element.clone(),
            ListType::Map(keys) => key(keys, element),
        };
        // Objects are sorted by key, so equal identities have equal texts.
        match seen.entry(identity.to_string()) {
            Entry::Vacant(entry) => {
                entry.insert(false);
            }
            Entry::Occupied(mut entry) => {
                if !entry.insert(true) {
                    errors.push(text::duplicate(&path.index(index), &identity));
                }
            }
        }
    }
}

/// Elements of an old keyed list, found by their keys. Elements of other lists have no counterparts.
pub(super) struct Counterparts<'a> {
    keys: &'a [String],
    old: BTreeMap<String, &'a Value>,
}

impl<'a> Counterparts<'a> {
    pub(super) fn of(schema: Cursor<'a>, old: Option<&'a Value>) -> Option<Self> {
        let ListType::Map(keys) = schema.list_type() else {
            return None;
        };
        // Reversed, so that the first of several elements with equal keys wins.
        let old = old?.as_array()?.iter().rev().map(|element| (key(keys, element).to_string(), element));
        Some(Self { keys, old: old.collect() })
    }

    /// Returns the old element with the keys of `element`.
    pub(super) fn find(&self, element: &Value) -> Option<&'a Value> {
        self.old.get(&key(self.keys, element).to_string()).copied()
    }
}

fn key(keys: &[String], element: &Value) -> Value {
    let key: Map<String, Value> =
        keys.iter().filter_map(|name| Some((name.clone(), element.get(name)?.clone()))).collect();
    Value::Object(key)
}
