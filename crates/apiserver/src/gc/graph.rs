//! Who refers to whom, and who has to be looked at: what the collector remembers (pure).
//!
//! Objects are known by their place. An object is in the graph if it has owners or waits for its dependents; all others
//! are only places that are referred to. So what it costs follows the number of references, and a change costs what it
//! touches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::resource::StorageKey;
use crate::store::Key;

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) table: StorageKey,
    pub(super) key: Key,
}

/// One of an object's owner references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) uid: String,
    /// Where the owner is if it is anywhere; `None` if its kind is not known.
    pub(super) owner: Option<Place>,
    /// Whether the owner waits for this object, if it waits.
    pub(super) blocks: bool,
}

/// What an object that is being deleted waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its dependents are to lose their references to it (`orphan`).
    Orphans,
    /// Those of its dependents that block it are to go first (`foregroundDeletion`).
    Dependents,
}

/// An object that has owners, or waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) uid: String,
    pub(super) owners: Vec<Reference>,
    pub(super) wait: Option<Wait>,
}

impl Node {
    /// Whether this object keeps the one with that uid from going.
    pub(super) fn blocks(&self, uid: &str) -> bool {
        self.owners.iter().any(|reference| reference.uid == uid && reference.blocks)
    }
}

/// The graph. `Default` is empty.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Place, Node>,
    /// Places of owners, and of the objects that refer to them.
    dependents: BTreeMap<Place, BTreeSet<Place>>,
    /// Objects that refer to a kind that is not known.
    unresolved: BTreeSet<Place>,
    /// Objects to be looked at.
    due: BTreeSet<Place>,
}

impl Graph {
    /// The object at a place is now this; `None` if it is gone, or neither has owners nor waits.
    pub(super) fn set(&mut self, place: Place, node: Option<Node>) {
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

    fn unlink(&mut self, place: &Place, before: &Node) {
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

    /// An owner that waits looks again when one of its dependents changes.
    fn wake_owner(&mut self, owner: &Place) {
        if self.nodes.get(owner).is_some_and(|node| node.wait.is_some()) {
            self.due.insert(owner.clone());
        }
    }

    /// The object at a place is gone, or begins to go: whoever refers to it looks again.
    pub(super) fn owner_goes(&mut self, place: &Place) {
        if let Some(dependents) = self.dependents.get(place) {
            self.due.extend(dependents.iter().cloned());
        }
    }

    /// The next object to be looked at. It is not due any more.
    pub(super) fn next(&mut self) -> Option<Place> {
        self.due.pop_first()
    }

    pub(super) fn node(&self, place: &Place) -> Option<&Node> {
        self.nodes.get(place)
    }

    /// The objects that refer to the one with this uid at this place. One in another namespace is not among them,
    /// whatever it refers to.
    pub(super) fn dependents<'a>(
        &'a self,
        owner: &Place,
        uid: &'a str,
    ) -> impl Iterator<Item = (&'a Place, &'a Node)> + use<'a> {
        let referring = self.dependents.get(owner).into_iter().flatten();
        referring
            .filter_map(|place| Some((place, self.nodes.get(place)?)))
            .filter(move |(_, node)| node.owners.iter().any(|reference| reference.uid == uid))
    }

    /// Objects of a table that are in the graph.
    pub(super) fn nodes_in(&self, table: &StorageKey) -> Vec<Place> {
        let in_table = self.nodes.range((Bound::Included(first(table)), Bound::Unbounded));
        in_table.map(|(place, _)| place).take_while(|place| place.table == *table).cloned().collect()
    }

    /// Places of a table that somebody refers to.
    pub(super) fn owners_in(&self, table: &StorageKey) -> Vec<Place> {
        let in_table = self.dependents.range((Bound::Included(first(table)), Bound::Unbounded));
        in_table.map(|(place, _)| place).take_while(|place| place.table == *table).cloned().collect()
    }

    /// Objects that refer to something in this table, or to something nobody knows where to find.
    pub(super) fn to_resolve(&self, table: &StorageKey) -> BTreeSet<Place> {
        let owners = self.owners_in(table);
        let referring = owners.iter().filter_map(|owner| self.dependents.get(owner)).flatten();
        referring.chain(&self.unresolved).cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn due(&self) -> &BTreeSet<Place> {
        &self.due
    }
}

/// Where the places of a table begin.
fn first(table: &StorageKey) -> Place {
    Place { table: table.clone(), key: Key::from_text("") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(name: &str) -> Place {
        let table = StorageKey { group: String::new(), plural: "things".to_owned() };
        Place { table, key: Key::new("ns", name) }
    }

    fn owned(owners: &[&str]) -> Node {
        let reference = |owner: &&str| Reference {
            uid: format!("uid-{owner}"),
            owner: (*owner != "?").then(|| place(owner)),
            blocks: true,
        };
        Node { uid: String::new(), owners: owners.iter().map(reference).collect(), wait: None }
    }

    fn waiting() -> Node {
        Node { wait: Some(Wait::Dependents), ..owned(&[]) }
    }

    fn drain(graph: &mut Graph) -> String {
        let due: Vec<String> =
            std::iter::from_fn(|| graph.next()).map(|place| place.key.name().to_owned()).collect();
        due.join(" ")
    }

    #[test]
    fn a_change_is_due_for_whom_it_concerns() {
        let mut graph = Graph::default();
        graph.set(place("a"), Some(owned(&["o"])));
        graph.set(place("b"), Some(owned(&["o", "p"])));
        graph.set(place("c"), Some(owned(&["p"])));
        assert_eq!(drain(&mut graph), "a b c");
        graph.owner_goes(&place("o"));
        assert_eq!(drain(&mut graph), "a b");
        graph.owner_goes(&place("nobody refers to it"));
        assert_eq!(drain(&mut graph), "");
        graph.set(place("b"), Some(owned(&["p"])));
        assert_eq!(drain(&mut graph), "b");
        graph.owner_goes(&place("o"));
        assert_eq!(drain(&mut graph), "a");
    }

    #[test]
    fn an_owner_that_waits_looks_again_when_a_dependent_changes_or_goes() {
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
        fn the_index_is_what_the_objects_say(
            changes in prop::collection::vec(
                ("[a-d]", prop::option::of(prop::collection::vec("[a-d?]", 0..3))), 0..24,
            )
        ) {
            let mut graph = Graph::default();
            let mut model: BTreeMap<Place, Node> = BTreeMap::new();
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
                let refers = |node: &Node| node.owners.iter().any(|one| one.owner == Some(place(owner)));
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
