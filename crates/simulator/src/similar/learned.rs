//! Places that differ between two runs without faults.

use std::{collections::BTreeSet, ops::Bound};

use serde_json::Value;

use super::{Difference, World, compare, learned_names::LearnedNames, normal_form};

/// Places with values that differ from run to run, as patterns of paths such as `buckets.example.com/status/id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// Places of scalars.
    pub(super) leaves: BTreeSet<String>,
    /// Places of maps with keys that differ.
    pub(super) keyed: BTreeSet<String>,
    /// Leaves with texts that differ even after the learned values in them are replaced.
    pub(super) opaque: BTreeSet<String>,
    /// Names of objects.
    pub(crate) names: LearnedNames,
}

/// Maximum number of passes of [`learn`]. Each pass finds places that the previous one has made comparable.
const PASSES: usize = 4;

/// Finds the places at which two runs without faults differ.
///
/// # Errors
///
/// The differences that remain, because they are not of single values.
pub(crate) fn learn(first: &World, second: &World) -> Result<Learned, Vec<Difference>> {
    let mut learned = Learned { names: LearnedNames::learn(first, second), ..Learned::default() };
    for _ in 0..PASSES {
        let (one, other) = (normal_form(first, &learned), normal_form(second, &learned));
        if one == other {
            return Ok(learned);
        }
        let before = learned.clone();
        for (label, value) in &one {
            // The root of paths is that of `normal_form`: a resource, or `remote` with the name of the system.
            let root = label.split(' ').next().filter(|root| *root != "remote").unwrap_or(label);
            if let Some(other) = other.get(label) {
                learned.add(value, other, root);
            }
        }
        // A pass without news would repeat itself.
        if learned == before {
            break;
        }
    }
    let differences = compare(&normal_form(first, &learned), &normal_form(second, &learned));
    if differences.is_empty() { Ok(learned) } else { Err(differences) }
}

impl Learned {
    pub(crate) fn extend(&mut self, other: Self) {
        self.leaves.extend(other.leaves);
        self.keyed.extend(other.keyed);
        self.opaque.extend(other.opaque);
        self.names.extend(other.names);
    }

    /// Whether a place at or below `path` is learned.
    pub(super) fn reaches_into(&self, path: &str) -> bool {
        let has = |places: &BTreeSet<String>| {
            let next = places.range::<str, _>((Bound::Included(path), Bound::Unbounded)).next();
            // The places are sorted, so the first one at or after `path` is below it if any is.
            next.is_some_and(|place| place.starts_with(path))
        };
        has(&self.leaves) || has(&self.keyed)
    }

    fn add(&mut self, one: &Value, other: &Value, path: &str) {
        match (one, other) {
            (Value::Object(fields), Value::Object(others)) => {
                // Maps with as many entries differ in their keys alone. With more entries in one of them, the
                // runs differ in content.
                if fields.len() == others.len() && fields.keys().ne(others.keys()) {
                    self.keyed.insert(path.to_owned());
                    return;
                }
                for (name, field) in fields {
                    if let Some(other) = others.get(name) {
                        let inner = if self.keyed.contains(path) { "*" } else { name };
                        self.add(field, other, &format!("{path}/{inner}"));
                    }
                }
            }
            (Value::Array(items), Value::Array(others)) => {
                let inner = format!("{path}/-");
                items.iter().zip(others).for_each(|(item, other)| self.add(item, other, &inner));
            }
            (Value::Null, _) | (_, Value::Null) => {}
            (one, other) => {
                let differ = one != other && !is_container(one) && !is_container(other);
                // The place was learned in an earlier pass and its text still differs, so the replaced parts
                // do not explain the difference.
                if differ && !self.leaves.insert(path.to_owned()) {
                    self.opaque.insert(path.to_owned());
                }
            }
        }
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}
