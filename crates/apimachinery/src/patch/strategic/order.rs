//! Order of merged lists.
//!
//! Elements of the patch have the patch's order. Elements that only the server has keep their place relative to shared elements.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{DIRECTIVE, no_merge_key};
use crate::go;
use crate::status::ApiError;

/// Rule for the identity of list elements: the field with this name, or the whole value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyed<'a>(pub(super) Option<&'a str>);

/// Identity of an element, as text. Objects are sorted by key, so equal values have equal texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ElementKey(String);

impl ElementKey {
    pub(super) fn of(value: &Value) -> Self {
        Self(value.to_string())
    }
}

impl Ord for ElementKey {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        super::tests::COMPARISONS.with(|count| count.set(count.get() + 1));
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for ElementKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Index of a list by identity. Both lists come from clients and may be as long as a body, so neither is searched once per element of the
/// other.
pub(super) struct Places(BTreeMap<ElementKey, usize>);

impl Places {
    /// Returns the place of the first element with this identity.
    pub(super) fn find(&self, identity: Option<&ElementKey>) -> Option<usize> {
        self.0.get(identity?).copied()
    }

    /// Records the place of an element, unless an earlier one has its identity.
    pub(super) fn add(&mut self, identity: ElementKey, place: usize) {
        // The first of several elements counts, as in Go's search from the front.
        self.0.entry(identity).or_insert(place);
    }
}

impl Keyed<'_> {
    /// Returns the identity of an element; `None` if it lacks the key.
    pub(super) fn identity(&self, item: &Value) -> Option<ElementKey> {
        match self.0 {
            None => Some(ElementKey::of(item)),
            Some(key) => item.get(key).map(ElementKey::of),
        }
    }

    /// Builds the index of a list.
    pub(super) fn places(&self, list: &[Value]) -> Places {
        let mut places = Places(BTreeMap::new());
        for (place, item) in list.iter().enumerate() {
            if let Some(identity) = self.identity(item) {
                places.add(identity, place);
            }
        }
        places
    }

    /// Orders `merged`: elements of `order` in that order, others where `live` has them.
    pub(super) fn arrange(
        &self,
        merged: Vec<Value>,
        order: &[Value],
        live: &[Value],
    ) -> Result<Vec<Value>, ApiError> {
        // Go looks up the merge key of each element of both lists, and fails without it.
        merged.iter().chain(order).try_for_each(|item| self.require_key(item))?;
        let (in_order, in_live) = (self.places(order), self.places(live));
        // Go searches the order for each element, and fails at an earlier value that is not an object.
        let misplaced = order.iter().position(|item| !item.is_object()).filter(|_| self.0.is_some());
        if let Some(misplaced) = misplaced {
            let is_before = |item: &Value| {
                in_order.find(self.identity(item).as_ref()).is_some_and(|place| place < misplaced)
            };
            if !merged.iter().all(is_before) {
                return Err(ApiError::internal(format!("value for key {misplaced} is not a map")));
            }
        }
        // Elements with their place in `live`; elements of `order` also have their place in `order`.
        let (mut given, mut others) = (Vec::new(), Vec::new());
        for item in merged {
            let identity = self.identity(&item);
            let live = in_live.find(identity.as_ref());
            match in_order.find(identity.as_ref()) {
                Some(place) => given.push((place, live, item)),
                None => others.push((live, item)),
            }
        }
        given.sort_by_key(|(place, ..)| *place);
        // The sort is stable, so elements that the server did not have keep their order. `None` sorts first.
        others.sort_by_key(|(place, _)| *place);
        let mut arranged = Vec::with_capacity(given.len() + others.len());
        let mut given = given.into_iter().map(|(_, live, item)| (live, item)).peekable();
        for (place, other) in others {
            // The live order decides only if both are in `live`; otherwise elements of the patch come first.
            let comes_before = |next: &(Option<usize>, Value)| match (place, next.0) {
                (Some(place), Some(next)) => next <= place,
                _ => true,
            };
            while let Some((_, next)) = given.next_if(comes_before) {
                arranged.push(next);
            }
            arranged.push(other);
        }
        arranged.extend(given.map(|(_, item)| item));
        Ok(arranged)
    }

    /// Checks that an object in a keyed list has the key.
    fn require_key(&self, item: &Value) -> Result<(), ApiError> {
        match (self.0, item) {
            (Some(key), Value::Object(fields)) if !fields.contains_key(key) => Err(no_merge_key(fields, key)),
            _ => Ok(()),
        }
    }

    /// Checks that the elements of a keyed list are objects.
    fn check_elements(&self, items: &[Value]) -> Result<(), ApiError> {
        match items.iter().find(|item| self.0.is_some() && !item.is_object()) {
            Some(item) => Err(ApiError::internal(format!(
                "expected a map[string]interface {{}}, but received a {}",
                go::type_of(item)
            ))),
            None => Ok(()),
        }
    }

    /// Checks that the patch lists its elements in the order that it requests.
    pub(super) fn check_order(&self, patch: &[Value], order: &[Value]) -> Result<(), ApiError> {
        // Go compares the two lists only if both have elements.
        if patch.is_empty() || order.is_empty() {
            return Ok(());
        }
        self.check_elements(patch)?;
        // Deleted elements have no place in the result.
        let deletes = |item: &Value| self.0.is_some() && item.get(DIRECTIVE).is_some_and(|it| it == "delete");
        let mut given = patch.iter().filter(|item| !deletes(item)).peekable();
        let mut order_left = order.iter().peekable();
        // `$setElementOrder` may name more elements than the patch changes: the patch must be a subsequence of it.
        while let (Some(next), Some(item)) = (given.peek(), order_left.peek()) {
            // An element with a directive, such as `replace`, is no element of the result.
            if next.get(DIRECTIVE).is_some() {
                given.next();
                continue;
            }
            self.check_elements(std::slice::from_ref(item))?;
            self.require_key(next)?;
            self.require_key(item)?;
            if self.identity(next) == self.identity(item) {
                given.next();
            }
            order_left.next();
        }
        if given.peek().is_none() {
            return Ok(());
        }
        Err(ApiError::internal(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            go::value(&Value::from(patch)),
            go::value(&Value::from(order))
        )))
    }
}
