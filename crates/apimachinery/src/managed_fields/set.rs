//! Field sets: the parts of an object that a manager owns.
//!
//! A set is a tree. A node can be a member (its own path is owned) and can have members below it. Nodes without either do not exist, so
//! equal sets are equal trees.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde_json::Value;

use crate::go;

/// One step of a field path.
#[derive(Debug, Clone)]
pub(super) enum PathElement {
    /// Field of an object.
    Field(String),
    /// Element of a keyed list with these key fields, sorted by name.
    Key(Vec<(String, Value)>),
    /// Element of a set with this value.
    Value(Value),
    /// Element of a list at this index. Clients may send such steps; the server never creates them.
    Index(i64),
}

impl PathElement {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                // Keys are sorted by name, so equal positions can be compared; a longer key follows its beginning.
                let entries = a.iter().zip(b).map(|((a_name, a_value), (b_name, b_value))| {
                    a_name.cmp(b_name).then_with(|| compare_values(a_value, b_value))
                });
                entries.fold(Ordering::Equal, Ordering::then).then_with(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// Orders values as structured-merge-diff: numbers, strings, booleans, lists, objects, null.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            // Whole numbers are compared exactly, as a float cannot distinguish all of them.
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Null, Value::Null) => Ordering::Equal,
        (a, b) if rank(a) != rank(b) => rank(a).cmp(&rank(b)),
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

/// Formats a step for messages: `.spec`, `[port=80,proto="TCP"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                for (index, (name, value)) in keys.iter().enumerate() {
                    let value = ShownValue(value);
                    write!(f, "{}{name}={value}", if index == 0 { '[' } else { ',' })?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", ShownValue(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats a value as structured-merge-diff: an object has no braces and no separators.
struct ShownValue<'a>(&'a Value);

impl fmt::Display for ShownValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => f.write_str(&go::quote(text)),
            Value::Number(_) => f.write_str(&go::value(self.0)),
            Value::Array(elements) => {
                f.write_str("[")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { "," }, ShownValue(element))?;
                }
                f.write_str("]")
            }
            Value::Object(fields) => {
                fields.iter().try_for_each(|(name, value)| write!(f, "{name}={}", ShownValue(value)))
            }
            Value::Null | Value::Bool(_) => write!(f, "{}", self.0),
        }
    }
}

/// Fields below a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeMap<PathElement, SetNode>);

/// A place: whether it is in the set, and the members below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SetNode {
    pub member: bool,
    pub below: FieldSet,
}

impl SetNode {
    /// Returns a place that is in the set.
    pub(super) fn member() -> Self {
        Self { member: true, below: FieldSet::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds `node`; an empty node is ignored.
    pub(super) fn insert(&mut self, element: PathElement, node: SetNode) {
        if node.is_empty() {
            return;
        }
        match self.0.entry(element) {
            Entry::Vacant(place) => {
                place.insert(node);
            }
            Entry::Occupied(mut place) => {
                let present = place.get_mut();
                present.member |= node.member;
                present.below.merge(node.below);
            }
        }
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&SetNode> {
        self.0.get(element)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathElement, &SetNode)> {
        self.0.iter()
    }

    /// Adds all members of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        // Saves the insertion of each member.
        if self.is_empty() {
            *self = other;
            return;
        }
        for (element, node) in other.0 {
            self.insert(element, node);
        }
    }

    /// Returns the members of both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (element, node) in &self.0 {
            if let Some(theirs) = other.get(element) {
                let node = SetNode {
                    member: node.member && theirs.member,
                    below: node.below.intersection(&theirs.below),
                };
                both.insert(element.clone(), node);
            }
        }
        both
    }

    /// Removes the members of `other`; members below them stay.
    pub(super) fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.0.retain(|element, node| {
            if let Some(theirs) = other.get(element) {
                node.member &= !theirs.member;
                node.below.subtract(&theirs.below);
            }
            !node.is_empty()
        });
    }

    /// Removes the fields at paths such as `metadata.labels`, and everything below them.
    pub(super) fn remove_paths(&mut self, paths: &[&str]) {
        for path in paths {
            self.remove_field(&path.split('.').collect::<Vec<_>>());
        }
    }

    /// Removes a field path and everything below it.
    pub(super) fn remove_field(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let element = PathElement::Field((*first).to_owned());
        if rest.is_empty() {
            self.0.remove(&element);
        } else if let Some(node) = self.0.get_mut(&element) {
            node.below.remove_field(rest);
            // Nodes without members must not remain, because the equality of sets compares trees.
            if node.is_empty() {
                self.0.remove(&element);
            }
        }
    }

    /// Lets `f` change each place, and removes those that become empty.
    pub(super) fn retain(&mut self, mut f: impl FnMut(&PathElement, &mut SetNode)) {
        self.0.retain(|element, node| {
            f(element, node);
            !node.is_empty()
        });
    }

    /// Formats the paths of all members for messages. The members of a level come before anything below them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        // Two passes, because structured-merge-diff keeps members and children apart and lists the members first.
        for (element, node) in &self.0 {
            if node.member {
                paths.push(format!("{prefix}{element}"));
            }
        }
        for (element, node) in &self.0 {
            if !node.below.is_empty() {
                node.below.collect_paths(&format!("{prefix}{element}"), paths);
            }
        }
    }
}
