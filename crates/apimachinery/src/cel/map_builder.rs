//! Maps that an expression builds.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::evaluation_error::{EvaluationError, failed};
use super::operators;
use super::value::Val;

/// Entries of a map that is being built. Keys of different number types are equal.
#[derive(Default)]
pub(super) struct MapBuilder<'a> {
    entries: Vec<(Val<'a>, Val<'a>)>,
    /// Indices of the entries by their keys.
    places: BTreeMap<MapKey, usize>,
}

/// Identity of a key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum MapKey {
    Bool(bool),
    Number(i128),
    Text(Rc<str>),
}

impl<'a> MapBuilder<'a> {
    /// Adds an entry. As in cel-go, a later entry of a literal replaces an earlier one.
    pub(super) fn replace(&mut self, key: Val<'a>, value: Val<'a>) {
        match MapKey::of(&key).and_then(|key| self.places.get(&key)) {
            Some(place) => self.entries[*place].1 = value,
            None => self.push(key, value),
        }
    }

    /// Adds an entry, unless the map has one with this key.
    pub(super) fn insert(&mut self, key: Val<'a>, value: Val<'a>) -> Result<(), EvaluationError> {
        if MapKey::of(&key).is_some_and(|key| self.places.contains_key(&key)) {
            let shown = operators::shown_key(&key);
            return Err(failed(format!("insert failed: key {shown} already exists")));
        }
        self.push(key, value);
        Ok(())
    }

    fn push(&mut self, key: Val<'a>, value: Val<'a>) {
        self.places.extend(MapKey::of(&key).map(|key| (key, self.entries.len())));
        self.entries.push((key, value));
    }

    pub(super) fn build(self) -> Val<'a> {
        Val::Map(Rc::new(self.entries))
    }
}

impl MapKey {
    /// Returns the identity of a key; `None` for values that cannot be keys.
    fn of(key: &Val<'_>) -> Option<Self> {
        Some(match key {
            Val::Bool(value) => Self::Bool(*value),
            Val::Int(value) => Self::Number(i128::from(*value)),
            Val::Uint(value) => Self::Number(i128::from(*value)),
            Val::String(text) => Self::Text(text.shared()),
            _ => return None,
        })
    }
}
