//! Comparison of two objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, PathElement, SetNode};
use super::typed::{Elements, Fields, Shape, Ty};

/// Changed fields of an object, by kind of change. A structure that was added or removed is a member itself, in addition to its leaves.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
}

impl Comparison {
    /// Removes field paths, with everything below them, from the comparison.
    pub(super) fn ignore(&mut self, paths: &[&str]) {
        self.added.remove_paths(paths);
        self.removed.remove_paths(paths);
        self.modified.remove_paths(paths);
    }

    /// Returns the fields that were added or modified.
    pub(super) fn changed(&self) -> FieldSet {
        let mut changed = self.modified.clone();
        changed.merge(self.added.clone());
        changed
    }

    /// Like [`changed`](Self::changed), without a copy.
    pub(super) fn into_changed(self) -> FieldSet {
        let mut changed = self.modified;
        changed.merge(self.added);
        changed
    }
}

/// Compares two objects.
pub(super) fn compare(ty: Ty<'_>, old: &Value, new: &Value) -> Comparison {
    let ComparedField { added, removed, modified, .. } = place(ty, Some(old), Some(new));
    Comparison { added: added.below, removed: removed.below, modified: modified.below }
}

/// Comparison of one place.
#[derive(Default)]
struct ComparedField {
    added: SetNode,
    removed: SetNode,
    modified: SetNode,
    /// Whether the place was compared as a whole.
    is_whole: bool,
}

/// Compares one place with the places below it.
fn place(ty: Ty<'_>, old: Option<&Value>, new: Option<&Value>) -> ComparedField {
    let mut place = ComparedField::default();
    if old == new {
        // Equal values are the usual case, and their comparison avoids the walk with its path elements.
        return place;
    }
    match (old, new) {
        (Some(old_value), Some(new_value)) => {
            let (old_shape, new_shape) = (ty.shape(old_value), ty.shape(new_value));
            // The type of the value changed, for example from a list to an object: record the fields of both.
            if std::mem::discriminant(&old_shape) != std::mem::discriminant(&new_shape) {
                place.visit(old_shape, old, new);
                place.is_whole = false;
            }
            place.visit(new_shape, old, new);
        }
        (Some(value), None) | (None, Some(value)) => place.visit(ty.shape(value), old, new),
        (None, None) => {}
    }
    // A value that was compared as a whole has its member already.
    if !place.is_whole {
        place.added.member |= old.is_none();
        place.removed.member |= new.is_none();
    }
    place
}

impl ComparedField {
    fn visit(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        match shape {
            Shape::Scalar(_) | Shape::Atomic(_) => self.whole(old, new),
            Shape::Map(fields) => {
                let (old_map, new_map) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                // Two empty maps may still differ: one may be null or absent.
                if old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty) {
                    self.whole(old, new);
                } else {
                    self.maps(fields, old_map, new_map);
                }
            }
            Shape::List(elements) => {
                let (old_list, new_list) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                if old_list.is_none_or(Vec::is_empty) && new_list.is_none_or(Vec::is_empty) {
                    self.whole(old, new);
                } else {
                    let old_items = old_list.map(Vec::as_slice).unwrap_or_default();
                    let new_items = new_list.map(Vec::as_slice).unwrap_or_default();
                    self.lists(elements, old_items, new_items);
                }
            }
        }
    }

    fn whole(&mut self, old: Option<&Value>, new: Option<&Value>) {
        self.is_whole = true;
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (old, new) => self.modified.member |= old != new,
        }
    }

    fn maps(
        &mut self,
        fields: Fields<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) {
        // Fields of both maps are compared in the first loop; the second one visits the rest.
        let only_new = |name: &String| old.is_none_or(|old| !old.contains_key(name));
        for (name, value) in old.into_iter().flatten() {
            if let Some(ty) = fields.field(name) {
                let other = new.and_then(|new| new.get(name));
                self.attach(|| PathElement::Field(name.clone()), place(ty, Some(value), other));
            }
        }
        for (name, value) in new.into_iter().flatten().filter(|(name, _)| only_new(name)) {
            if let Some(ty) = fields.field(name) {
                self.attach(|| PathElement::Field(name.clone()), place(ty, None, Some(value)));
            }
        }
    }

    fn lists(&mut self, elements: Elements<'_>, old: &[Value], new: &[Value]) {
        // An identity may occur several times in a list, so each side is a list of values.
        type Both<'a> = (Vec<&'a Value>, Vec<&'a Value>);
        let mut found: BTreeMap<PathElement, Both<'_>> = BTreeMap::new();
        for item in old {
            if let Ok(identity) = elements.identity(item) {
                found.entry(identity).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(identity) = elements.identity(item) {
                found.entry(identity).or_default().1.push(item);
            }
        }
        let ty = elements.ty();
        for (identity, (old, new)) in found {
            let compared = match (&*old, &*new) {
                ([] | [_], [] | [_]) => place(ty, old.first().copied(), new.first().copied()),
                // Elements with the same identity form a group, which is compared as a whole. Between a group and a single element, one
                // is removed and the other added.
                ([_, _, ..], [_, _, ..]) => ComparedField {
                    modified: SetNode { member: old != new, ..SetNode::default() },
                    ..ComparedField::default()
                },
                ([_, _, ..], _) => {
                    let mut compared = new.first().map(|new| place(ty, None, Some(new))).unwrap_or_default();
                    compared.removed.member = true;
                    compared
                }
                (_, _) => {
                    let mut compared = old.first().map(|old| place(ty, Some(old), None)).unwrap_or_default();
                    compared.added.member = true;
                    compared
                }
            };
            self.attach(|| identity, compared);
        }
    }

    fn attach(&mut self, element: impl FnOnce() -> PathElement, place: ComparedField) {
        let ComparedField { added, removed, modified, .. } = place;
        let parts = [(&mut self.added, added), (&mut self.removed, removed), (&mut self.modified, modified)];
        let mut filled = parts.into_iter().filter(|(_, node)| !node.is_empty());
        // The last part takes the element itself, so that a change in one part, the usual case, needs no copy of it.
        let Some((last, last_node)) = filled.next_back() else {
            return;
        };
        let element = element();
        for (part, node) in filled {
            part.below.insert(element.clone(), node);
        }
        last.below.insert(element, last_node);
    }
}
