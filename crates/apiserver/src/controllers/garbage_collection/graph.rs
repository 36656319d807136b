//! Dependency graph of the garbage collector, and its work queue (pure).
//!
//! Objects are identified by their place. An object has a node if it has owners or waits for its dependents. Other objects only appear as
//! targets of references. Memory is therefore proportional to the number of references, and the cost of a change to the number of
//! references that it affects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::kind::resource::StorageKey;
use crate::store::Key;

/// Place of an object: its table and its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) table: StorageKey,
    pub(super) key: Key,
}

/// An owner reference of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnerReference {
    pub(super) uid: String,
    /// Place of the owner, which need not exist; `None` if the owner's kind is unknown.
    pub(super) owner: Option<Place>,
    /// Whether the owner's foreground deletion waits for this object.
    pub(super) blocks: bool,
}

/// Reason why an object that is being deleted waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Dependents still have references to it (finalizer `orphan`).
    Orphans,
    /// Dependents that block its deletion still exist (finalizer `foregroundDeletion`).
    Dependents,
}

/// An object that has owners, or that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GraphNode {
    pub(super) uid: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) wait: Option<Wait>,
}

impl GraphNode {
    /// Whether this object blocks the deletion of the object with this UID.
    pub(super) fn blocks(&self, uid: &str) -> bool {
        self.owners.iter().any(|reference| reference.uid == uid && reference.blocks)
    }
}

/// The graph and its work queue. The default is empty.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Place, GraphNode>,
    /// Objects by the places of the owners to which they refer.
    dependents: BTreeMap<Place, BTreeSet<Place>>,
    /// Objects with a reference to an unknown kind.
    unresolved: BTreeSet<Place>,
    /// Work queue: objects to be processed.
    due: BTreeSet<Place>,
    /// Owners with dependents that are still to be queued, each with the last queued dependent. An owner may have 100,000 dependents, so they
    /// are queued in batches.
    leaving: BTreeMap<Place, Option<Place>>,
}

/// Number of dependents that are queued at a time.
const BATCH: usize = 64;

impl Graph {
    /// Sets the node of an object. `None` means that the object was deleted, or neither has owners nor waits.
    pub(super) fn set(&mut self, place: Place, node: Option<GraphNode>) {
        if let Some(before) = self.nodes.remove(&place) {
            self.unlink(&place, &before);
        }
        self.due.remove(&place);
        let Some(node) = node else {
            return;
        };
        for reference in &node.owners {
            match &reference.owner {
                Some(owner) => {
                    self.dependents.entry(owner.clone()).or_default().insert(place.clone());
                    self.wake_owner(owner);
                }
                None => {
                    self.unresolved.insert(place.clone());
                }
            }
        }
        self.due.insert(place.clone());
        self.nodes.insert(place, node);
    }

    fn unlink(&mut self, place: &Place, before: &GraphNode) {
        self.unresolved.remove(place);
        for owner in before.owners.iter().filter_map(|reference| reference.owner.as_ref()) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
            self.wake_owner(owner);
        }
    }

    /// Queues an owner that waits, because one of its dependents changed.
    fn wake_owner(&mut self, owner: &Place) {
        if self.nodes.get(owner).is_some_and(|node| node.wait.is_some()) {
            self.due.insert(owner.clone());
        }
    }

    /// Queues the dependents of an object that was deleted, or is being deleted.
    pub(super) fn queue_dependents(&mut self, place: &Place) {
        if self.dependents.contains_key(place) {
            self.leaving.insert(place.clone(), None);
        }
    }

    /// Removes and returns the next object to be processed.
    pub(super) fn next(&mut self) -> Option<Place> {
        loop {
            if let Some(place) = self.due.pop_first() {
                return Some(place);
            }
            // The queue is empty: add the next batch of dependents.
            let (owner, last) = self.leaving.pop_first()?;
            let from = last.map_or(Bound::Unbounded, Bound::Excluded);
            let dependents = self.dependents.get(&owner).into_iter();
            let next = dependents.flat_map(|dependents| dependents.range((from.clone(), Bound::Unbounded)));
            self.due.extend(next.take(BATCH).cloned());
            // After a full batch there may be more.
            if self.due.len() == BATCH {
                self.leaving.insert(owner, self.due.last().cloned());
            }
        }
    }

    pub(super) fn node(&self, place: &Place) -> Option<&GraphNode> {
        self.nodes.get(place)
    }

    /// Returns the objects that refer to the object with this UID at this place. References from other namespaces do not count.
    pub(super) fn dependents<'a>(
        &'a self,
        owner: &Place,
        uid: &'a str,
    ) -> impl Iterator<Item = (&'a Place, &'a GraphNode)> + use<'a> {
        let referring = self.dependents.get(owner).into_iter().flatten();
        referring
            .filter_map(|place| Some((place, self.nodes.get(place)?)))
            .filter(move |(_, node)| node.owners.iter().any(|reference| reference.uid == uid))
    }

    /// Returns the first object after `last` in a table that has a node.
    pub(super) fn node_in(&self, table: &StorageKey, last: Option<&Place>) -> Option<Place> {
        let place = self.nodes.range(after(table, last)).next()?.0;
        (place.table == *table).then(|| place.clone())
    }

    /// Returns the first place after `last` in a table to which a reference leads.
    pub(super) fn owner_in(&self, table: &StorageKey, last: Option<&Place>) -> Option<Place> {
        let place = self.dependents.range(after(table, last)).next()?.0;
        (place.table == *table).then(|| place.clone())
    }

    /// Returns the first object after `last` that refers to `owner`.
    pub(super) fn dependent_of(&self, owner: &Place, last: Option<&Place>) -> Option<Place> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.dependents.get(owner)?.range((from, Bound::Unbounded)).next().cloned()
    }

    /// Returns the first object after `last` that refers to an unknown kind.
    pub(super) fn unresolved(&self, last: Option<&Place>) -> Option<Place> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.unresolved.range((from, Bound::Unbounded)).next().cloned()
    }

    #[cfg(test)]
    pub(super) fn due(&self) -> &BTreeSet<Place> {
        &self.due
    }
}

/// Returns the range of places after `last` in a table, and of all later tables.
fn after(table: &StorageKey, last: Option<&Place>) -> (Bound<Place>, Bound<Place>) {
    let first = || Place { table: table.clone(), key: Key::from_text("") };
    let from = last.map_or_else(|| Bound::Included(first()), |last| Bound::Excluded(last.clone()));
    (from, Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(name: &str) -> Place {
        let table = StorageKey::core("things");
        Place { table, key: Key::new("ns", name) }
    }

    fn owned(owners: &[&str]) -> GraphNode {
        let reference = |owner: &&str| OwnerReference {
            uid: format!("uid-{owner}"),
            owner: (*owner != "?").then(|| place(owner)),
            blocks: true,
        };
        GraphNode { uid: String::new(), owners: owners.iter().map(reference).collect(), wait: None }
    }

    fn waiting() -> GraphNode {
        GraphNode { wait: Some(Wait::Dependents), ..owned(&[]) }
    }

    fn drain(graph: &mut Graph) -> String {
        let due: Vec<String> =
            std::iter::from_fn(|| graph.next()).map(|place| place.key.name().to_owned()).collect();
        due.join(" ")
    }

    #[test]
    fn a_change_queues_the_objects_that_it_affects() {
        let mut graph = Graph::default();
        graph.set(place("a"), Some(owned(&["o"])));
        graph.set(place("b"), Some(owned(&["o", "p"])));
        graph.set(place("c"), Some(owned(&["p"])));
        assert_eq!(drain(&mut graph), "a b c");
        graph.queue_dependents(&place("o"));
        assert_eq!(drain(&mut graph), "a b");
        graph.queue_dependents(&place("without references"));
        assert_eq!(drain(&mut graph), "");
        graph.set(place("b"), Some(owned(&["p"])));
        assert_eq!(drain(&mut graph), "b");
        graph.queue_dependents(&place("o"));
        assert_eq!(drain(&mut graph), "a");
    }

    #[test]
    fn a_waiting_owner_is_queued_when_a_dependent_changes_or_is_deleted() {
        let mut graph = Graph::default();
        graph.set(place("a"), Some(owned(&["o"])));
        graph.set(place("o"), Some(waiting()));
        drain(&mut graph);
        graph.set(place("a"), Some(owned(&["o"])));
        assert_eq!(drain(&mut graph), "a o");
        graph.set(place("a"), None);
        assert_eq!(drain(&mut graph), "o");
        graph.set(place("a"), None);
        assert_eq!(drain(&mut graph), "");
    }

    #[test]
    fn dependents_are_those_of_the_uid_at_the_place() {
        let mut graph = Graph::default();
        graph.set(place("a"), Some(owned(&["o"])));
        let mut elsewhere = owned(&["o"]);
        elsewhere.owners[0].owner = Some(place("other"));
        graph.set(place("b"), Some(elsewhere));
        let names = |owner: &str, uid: &str| {
            graph
                .dependents(&place(owner), uid)
                .map(|(place, _)| place.key.name().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("o", "uid-o"), ["a"]);
        assert_eq!(names("o", "uid-of-before"), [""; 0]);
        assert_eq!(names("other", "uid-o"), ["b"]);
    }

    proptest! {
        #[test]
        fn the_index_equals_one_built_from_the_objects(
            changes in prop::collection::vec(
                ("[a-d]", prop::option::of(prop::collection::vec("[a-d?]", 0..3))), 0..24,
            )
        ) {
            let mut graph = Graph::default();
            let mut model: BTreeMap<Place, GraphNode> = BTreeMap::new();
            for (name, owners) in changes {
                let owners: Option<Vec<&str>> =
                    owners.as_ref().map(|owners| owners.iter().map(String::as_str).collect());
                let node = owners.map(|owners| owned(&owners));
                match &node {
                    Some(node) => model.insert(place(&name), node.clone()),
                    None => model.remove(&place(&name)),
                };
                graph.set(place(&name), node);
            }
            for owner in ["a", "b", "c", "d"] {
                let uid = format!("uid-{owner}");
                let found: Vec<&Place> = graph.dependents(&place(owner), &uid).map(|(place, _)| place).collect();
                let refers = |node: &GraphNode| node.owners.iter().any(|one| one.owner == Some(place(owner)));
                let expected: Vec<&Place> =
                    model.iter().filter(|(_, node)| refers(node)).map(|(place, _)| place).collect();
                prop_assert_eq!(found, expected);
            }
            let unresolved = model.iter().filter(|(_, node)| node.owners.iter().any(|one| one.owner.is_none()));
            let unresolved: BTreeSet<Place> = unresolved.map(|(place, _)| place.clone()).collect();
            prop_assert_eq!(&graph.unresolved, &unresolved);
            prop_assert!(graph.due.iter().all(|place| model.contains_key(place)));
            prop_assert_eq!(graph.due.len(), model.len(), "each is due since it was set");
        }
    }
}
