//! Removal of fields that no manager applies any more, and adjustment of field sets to a schema.

use serde_json::Value;

use super::set::{FieldSet, PathElement, SetNode};
use super::typed::{Shape, Ty};

/// Removes the members of `set` from `value`. An object or list that loses its last entry becomes null.
pub(super) fn remove(ty: Ty<'_>, value: &mut Value, set: &FieldSet) {
    let emptied = match (ty.shape(value), &mut *value) {
        (Shape::Map(fields), Value::Object(entries)) => {
            entries.retain(|name, value| {
                let Some(node) = set.get(&PathElement::Field(name.clone())) else {
                    return true;
                };
                // Everything below a removed field disappears with it, so the members below need no visit.
                if node.member {
                    return false;
                }
                if let Some(ty) = fields.field(name) {
                    remove(ty, value, &node.below);
                }
                true
            });
            entries.is_empty()
        }
        (Shape::List(elements), Value::Array(items)) => {
            items.retain_mut(|item| {
                let Some(node) = elements.identity(item).ok().and_then(|identity| set.get(&identity)) else {
                    return true;
                };
                if node.member {
                    return false;
                }
                remove(elements.ty(), item, &node.below);
                true
            });
            items.is_empty()
        }
        // A scalar is removed by the object or list that holds it.
        (Shape::Scalar(_), _) => false,
        // An atomic value has one owner and is removed as a whole.
        (Shape::Atomic(_) | Shape::Map(_) | Shape::List(_), _) => true,
    };
    if emptied {
        *value = Value::Null;
    }
}

/// Adds to the members of a set the declared fields above them: a struct is removed once all its fields are.
pub(super) fn with_declared_parents(ty: Ty<'_>, set: &FieldSet) -> FieldSet {
    let mut all = FieldSet::default();
    for (element, node) in set.iter() {
        let below = match ty.step(element) {
            // A step without a type, such as an element of a set, has nothing declared below it.
            Some(ty) => with_declared_parents(ty, &node.below),
            None => node.below.clone(),
        };
        let declared = matches!(element, PathElement::Field(name) if ty.declares(name));
        let member = node.member || declared && !node.below.is_empty();
        all.insert(element.clone(), SetNode { member, below });
    }
    all
}

/// Adapts a set to a schema that changed after the set was written: owners of parts of a value that is now atomic own the whole value.
pub(super) fn reconcile(ty: Ty<'_>, set: &mut FieldSet) {
    set.retain(|element, node| {
        // Below a step without a type nothing can have become atomic.
        let Some(ty) = ty.step(element) else {
            return;
        };
        if ty.is_atomic() {
            // A set that already owns the whole value has nothing below it.
            if !node.below.is_empty() {
                *node = SetNode::member();
            }
        } else {
            reconcile(ty, &mut node.below);
        }
    });
}
