//! The field set of an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::set::{FieldSet, PathElement, SetNode};
use super::typed::{Elements, Fields, Shape, Ty};

/// Returns every leaf of `value`. Elements of lists, entries of maps, nulls and empty objects are members
/// themselves.
pub(super) fn fields_of(ty: Ty<'_>, value: &Value) -> FieldSet {
    node(ty, value).below
}

fn node(ty: Ty<'_>, value: &Value) -> SetNode {
    match (ty.shape(value), value) {
        (Shape::Scalar(_) | Shape::Atomic(_), _) => SetNode::member(),
        (Shape::Map(fields), Value::Object(entries)) => map(fields, entries),
        (Shape::List(elements), Value::Array(items)) => list(elements, items),
        (Shape::Map(_) | Shape::List(_), _) => SetNode::default(),
    }
}

fn map(fields: Fields<'_>, entries: &serde_json::Map<String, Value>) -> SetNode {
    let mut all = SetNode::default();
    for (name, value) in entries {
        // An undeclared field has no type and thus no owner.
        let Some(ty) = fields.field(name) else {
            continue;
        };
        let mut child = node(ty, value);
        // A struct without content has no leaves, so that its own path must be the member.
        let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        child.member |= empty || !fields.declares(name);
        all.below.insert(PathElement::Field(name.clone()), child);
    }
    all
}

fn list(elements: Elements<'_>, items: &[Value]) -> SetNode {
    // Elements with the same identity are owned as one element, because it is undefined to which of them a field belongs.
    let mut found: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(identity) = elements.identity(item) {
            found.entry(identity).and_modify(|first| *first = None).or_insert(Some(item));
        }
    }
    let mut all = SetNode::default();
    for (identity, item) in found {
        let mut child = item.map(|item| node(elements.ty(), item)).unwrap_or_default();
        // Elements are members besides their leaves, so that an owner keeps the element when its last leaf is gone.
        child.member = true;
        all.below.insert(identity, child);
    }
    all
}
