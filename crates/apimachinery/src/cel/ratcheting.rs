//! Parts of an object that an update leaves unchanged (ratcheting). Their errors are only warnings, because the rules may be newer than the
//! object.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::value_schema::{ListKey, SchemaList, ValueSchema};

/// A part of an object, and its counterpart in the old object.
#[derive(Debug)]
pub(super) struct Correlated<'a> {
    old: &'a Value,
    new: &'a Value,
    schema: &'a ValueSchema,
    is_unchanged: OnceCell<bool>,
    /// Elements of the old list, if the part is a keyed list; computed at the first use.
    elements: OnceCell<Option<OldElements<'a>>>,
}

impl<'a> Correlated<'a> {
    pub(super) fn new(old: &'a Value, new: &'a Value, schema: &'a ValueSchema) -> Self {
        Self { old, new, schema, is_unchanged: OnceCell::new(), elements: OnceCell::new() }
    }

    /// Whether the part is equal to its counterpart.
    pub(super) fn is_unchanged(&self) -> bool {
        *self.is_unchanged.get_or_init(|| is_unchanged(self.schema, self.old, self.new))
    }

    /// Returns a field of the part; `None` if the old object has no such field, or if the schema does not declare it.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let schema = field_schema(self.schema, name)?;
        Some(Self::new(self.old.get(name)?, self.new.get(name)?, schema))
    }

    /// Returns an element of the part; `None` unless the part is a keyed list and the old list has an element with these keys.
    pub(super) fn element(&self, index: usize) -> Option<Self> {
        let known = self.elements.get_or_init(|| OldElements::of(self.schema, self.old));
        let new = self.new.get(index)?;
        let old = known.as_ref()?.find(new)?;
        Some(Self::new(old, new, self.schema.items.as_deref()?))
    }
}

fn field_schema<'a>(schema: &'a ValueSchema, name: &str) -> Option<&'a ValueSchema> {
    let declared = schema.properties.as_ref().and_then(|properties| properties.get(name));
    declared.or(schema.additional.as_ref()).map(|child| &**child)
}

/// Recurses at most as deep as the schema is nested.
fn is_unchanged(schema: &ValueSchema, old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(before), Value::Array(elements)) => {
            let Some(known) = OldElements::of(schema, old) else { return before == elements };
            let is_same = |element: &Value| {
                let items = schema.items.as_deref();
                items.zip(known.find(element)).is_some_and(|(items, old)| is_unchanged(items, old, element))
            };
            before.len() == elements.len() && elements.iter().all(is_same)
        }
        (Value::Object(before), Value::Object(fields)) => {
            let is_same = |(name, value): (&String, &Value)| {
                let child = field_schema(schema, name);
                child.zip(before.get(name)).is_some_and(|(child, old)| is_unchanged(child, old, value))
            };
            before.len() == fields.len() && fields.iter().all(is_same)
        }
        _ => old == new,
    }
}

/// Elements of an old list by their keys.
#[derive(Debug)]
pub(super) struct OldElements<'a> {
    keys: &'a [ListKey],
    /// The first element with the values of the keys, which are written as JSON.
    known: BTreeMap<String, &'a Value>,
}

impl<'a> OldElements<'a> {
    /// Reads an old list; `None` if the value is not a list, or its schema declares no keys.
    pub(super) fn of(schema: &'a ValueSchema, old: &'a Value) -> Option<Self> {
        let (SchemaList::Keyed(keys), Value::Array(elements)) = (&schema.list, old) else { return None };
        let mut known = BTreeMap::new();
        for element in elements {
            if let Some(identity) = identity(element, keys) {
                known.entry(identity).or_insert(element);
            }
        }
        Some(Self { keys, known })
    }

    /// Returns the first old element with the keys of this one.
    pub(super) fn find(&self, element: &Value) -> Option<&'a Value> {
        self.known.get(&identity(element, self.keys)?).copied()
    }
}

/// Returns the values of the keys as JSON; `None` unless all exist and are scalars.
fn identity(element: &Value, keys: &[ListKey]) -> Option<String> {
    let mut identity = String::new();
    for key in keys {
        let value = element.get(&key.name)?;
        if value.is_null() || value.is_array() || value.is_object() {
            return None;
        }
        identity.push_str(&value.to_string());
        identity.push(',');
    }
    Some(identity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_of_keyed_lists_may_move() {
        let schema = ValueSchema::read(&json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
        }));
        let old = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
        for (new, unchanged) in [
            (json!([{"name": "b", "port": 2}, {"name": "a", "port": 1}]), true),
            (json!([{"name": "b", "port": 2}, {"name": "a", "port": 3}]), false),
            (json!([{"name": "b", "port": 2}, {"name": "c", "port": 1}]), false),
            (json!([{"name": "a", "port": 1}]), false),
        ] {
            assert_eq!(Correlated::new(&old, &new, &schema).is_unchanged(), unchanged, "{new}");
        }
        let new = json!([{"name": "b", "port": 2}, {"name": "c"}]);
        let list = Correlated::new(&old, &new, &schema);
        assert!(list.element(0).is_some_and(|element| element.is_unchanged()));
        assert!(list.element(1).is_none() && list.element(2).is_none());
    }

    #[test]
    fn an_object_with_an_undeclared_field_counts_as_changed() {
        let schema = ValueSchema::read(&json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
        let (declared, undeclared) = (json!({"a": 1}), json!({"a": 1, "b": 2}));
        assert!(Correlated::new(&declared, &declared, &schema).is_unchanged());
        let changed = Correlated::new(&undeclared, &undeclared, &schema);
        assert!(!changed.is_unchanged());
        assert!(changed.field("a").is_some_and(|field| field.is_unchanged()));
        assert!(changed.field("b").is_none());
    }
}
