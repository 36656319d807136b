//! Garbage collection (profile [`Dev`](crate::Profile::Dev)): dependents follow their owners.
//!
//! As in Kubernetes, a graph remembers who refers to whom ([`graph`], pure); it is fed with the events of the store, and a
//! change is due only for those whom it concerns. What is done about them is decided from the state of the store at that
//! moment, so that the graph may be behind: whatever happened meanwhile is an event still to come.
//!
//! Bounds: the graph holds one entry per object with owners or that waits for its dependents, and one per reference.

mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::registry::{Registry, Served};
use crate::resource::StorageKey;
use crate::server::{Refused, Server};
use crate::store::{Change, Event, Key, Snapshot, Stored, TypeMeta};
use crate::verbs::delete::{Deletion, FOREGROUND, ORPHAN, begin_deletion};
use crate::verbs::{metadata, update};
use graph::{Graph, Node, Place, Reference, Wait};

/// Who owns the fields that the collector writes.
const MANAGER: &str = "kube-controller-manager";

/// Collects until its task is aborted.
pub(crate) async fn run(server: Arc<Server>) {
    let mut commits = server.commits();
    let mut collector = Collector::new();
    loop {
        commits.borrow_and_update();
        collector.catch_up(&server);
        collector.collect(&server);
        if commits.changed().await.is_err() {
            return;
        }
    }
}

struct Collector {
    graph: Graph,
    registry: Option<Arc<Registry>>,
    /// The tables that are followed, with a resource that reads them.
    tables: BTreeMap<StorageKey, Followed>,
    /// The revision up to which the graph knows what happened.
    seen: u64,
    /// Metadata is read without regard to the kind.
    no_kind: TypeMeta,
}

struct Followed {
    served: Arc<Served>,
    /// Whether the graph knows the table up to `seen`.
    known: bool,
}

/// What happened in a table.
enum News {
    Events(Vec<Arc<Event>>),
    /// More than is remembered of it: this is its state.
    All(Snapshot),
}

/// What an owner reference leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Living,
    /// Being deleted in the foreground: its dependents go first.
    Leaving,
    Absent,
    /// Of a kind that was never served: nothing is known about it.
    Unknown,
}

/// An object as it is read to be changed.
pub(crate) struct Read {
    served: Arc<Served>,
    place: Place,
    revision: u64,
    object: Value,
}

impl Read {
    pub(crate) fn new(served: &Arc<Served>, key: &Key, revision: u64, object: Value) -> Self {
        let place = Place { table: served.storage().clone(), key: key.clone() };
        Self { served: Arc::clone(served), place, revision, object }
    }
}

impl Collector {
    fn new() -> Self {
        Self {
            graph: Graph::default(),
            registry: None,
            tables: BTreeMap::new(),
            seen: 0,
            no_kind: TypeMeta::new("", ""),
        }
    }

    /// Takes in what happened since the last time.
    fn catch_up(&mut self, server: &Server) {
        let registry = server.registry();
        if !self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            self.registry = Some(Arc::clone(&registry));
            self.follow(server, &registry);
        }
        let (news, now) = server.read(|store| {
            let mut news = Vec::new();
            for (table, followed) in &self.tables {
                match store.events_after(table, self.seen, usize::MAX) {
                    Ok(events) if followed.known => {
                        if !events.is_empty() {
                            news.push((table.clone(), News::Events(events)));
                        }
                    }
                    _ => news.push((table.clone(), News::All(store.snapshot(table)))),
                }
            }
            (news, store.revision())
        });
        for (table, news) in news {
            match news {
                News::Events(events) => {
                    for event in events {
                        self.take_event(&registry, &table, &event);
                    }
                }
                News::All(snapshot) => self.take_all(&registry, &table, &snapshot),
            }
            if let Some(followed) = self.tables.get_mut(&table) {
                followed.known = true;
            }
        }
        self.seen = now;
    }

    /// Follows the tables that are served from now on, and forgets the others.
    fn follow(&mut self, server: &Server, registry: &Registry) {
        let mut old = std::mem::take(&mut self.tables);
        for served in registry.one_per_table() {
            let known = old.remove(served.storage()).is_some_and(|followed| followed.known);
            if !known {
                // References to its kind may lead somewhere now.
                for place in self.graph.to_resolve(served.storage()) {
                    self.take_one(server, registry, place);
                }
            }
            self.tables.insert(served.storage().clone(), Followed { served, known });
        }
        for table in old.into_keys() {
            for place in self.graph.nodes_in(&table) {
                self.graph.set(place, None);
            }
            for owner in self.graph.owners_in(&table) {
                self.graph.owner_goes(&owner);
            }
        }
    }

    fn take_event(&mut self, registry: &Registry, table: &StorageKey, event: &Event) {
        let place = Place { table: table.clone(), key: event.key.clone() };
        // Most objects neither have owners nor are being deleted, which is known without reading them.
        let matters = |stored: &Option<Arc<Stored>>| stored.as_ref().is_some_and(|stored| matters(stored));
        if matters(&event.after) || matters(&event.before) {
            let node = event.after.as_ref().and_then(|stored| self.node(registry, &place, stored));
            self.graph.set(place.clone(), node);
        }
        if event.after.as_ref().is_none_or(|stored| stored.document.is_terminating()) {
            self.graph.owner_goes(&place);
        }
    }

    fn take_all(&mut self, registry: &Registry, table: &StorageKey, snapshot: &Snapshot) {
        for place in self.graph.nodes_in(table) {
            self.graph.set(place, None);
        }
        for (key, stored) in snapshot.range("", None) {
            if matters(stored) {
                let place = Place { table: table.clone(), key: key.clone() };
                let node = self.node(registry, &place, stored);
                self.graph.set(place, node);
            }
        }
        for owner in self.graph.owners_in(table) {
            self.graph.owner_goes(&owner);
        }
    }

    fn take_one(&mut self, server: &Server, registry: &Registry, place: Place) {
        let stored = server.read(|store| store.get(&place.table, &place.key).cloned());
        let node = stored.and_then(|stored| self.node(registry, &place, &stored));
        self.graph.set(place, node);
    }

    /// What the graph knows of an object; `None` for one that is of no interest to it.
    fn node(&self, registry: &Registry, place: &Place, stored: &Stored) -> Option<Node> {
        let object = stored.document.to_value(&self.no_kind, stored.revision);
        let owners: Vec<Reference> = owners(&object)
            .iter()
            .map(|owner| Reference {
                uid: text(owner, "uid").to_owned(),
                owner: place_of(registry, place.key.namespace(), owner),
                blocks: owner["blockOwnerDeletion"] == true,
            })
            .collect();
        let wait = wait(&object);
        (wait.is_some() || !owners.is_empty()).then(|| Node {
            uid: metadata::text(&object, "uid").to_owned(),
            owners,
            wait,
        })
    }

    /// Does everything that is due now.
    fn collect(&mut self, server: &Server) {
        while let Some(place) = self.graph.next() {
            let Some(node) = self.graph.node(&place) else { continue };
            let Some(read) = self.read(server, &place) else { continue };
            match node.wait {
                Some(Wait::Orphans) => self.orphan(server, node, &read),
                Some(Wait::Dependents) => {
                    let mut dependents = self.graph.dependents(&place, &node.uid);
                    if !dependents.any(|(_, dependent)| dependent.blocks(&node.uid)) {
                        remove_finalizer(server, &read, FOREGROUND);
                    }
                }
                None => {}
            }
            if !node.owners.is_empty() {
                self.collect_dependent(server, node, &read);
            }
        }
    }

    /// The object at a place as it is now; `None` if it is gone.
    fn read(&self, server: &Server, place: &Place) -> Option<Read> {
        let served = Arc::clone(&self.tables.get(&place.table)?.served);
        let stored = server.read(|store| store.get(&place.table, &place.key).cloned())?;
        let object = served.value(&stored);
        Some(Read { served, place: place.clone(), revision: stored.revision, object })
    }

    /// Takes the owner's references away from its dependents, then its finalizer.
    fn orphan(&self, server: &Server, node: &Node, owner: &Read) {
        let dependents: Vec<Place> =
            self.graph.dependents(&owner.place, &node.uid).map(|(place, _)| place.clone()).collect();
        let mut all = true;
        for dependent in dependents {
            if let Some(dependent) = self.read(server, &dependent) {
                all &= drop_references(server, &dependent, std::slice::from_ref(&node.uid));
            }
        }
        if all {
            remove_finalizer(server, owner, ORPHAN);
        }
    }

    /// Deletes a dependent whose owners are gone; one with a living owner only loses the references to the others.
    fn collect_dependent(&self, server: &Server, node: &Node, read: &Read) {
        let states: Vec<(Owner, &str)> = node
            .owners
            .iter()
            .map(|reference| (self.find(server, reference), reference.uid.as_str()))
            .collect();
        let with = |wanted: Owner| {
            states.iter().filter(move |(state, _)| *state == wanted).map(|(_, uid)| (*uid).to_owned())
        };
        if with(Owner::Unknown).next().is_some() {
            return;
        }
        if with(Owner::Living).next().is_some() {
            let dangling: Vec<String> = with(Owner::Absent).chain(with(Owner::Leaving)).collect();
            if !dangling.is_empty() {
                drop_references(server, read, &dangling);
            }
            return;
        }
        if metadata::is_terminating(&read.object) {
            return;
        }
        // A dependent that its own dependents would block goes in the foreground too, if its owner does.
        let mut mine = self.graph.dependents(&read.place, &node.uid).peekable();
        let foreground = with(Owner::Leaving).next().is_some() && mine.peek().is_some();
        // One of them waits already, perhaps, by a circle, for this very object: it must not wait for anything itself.
        if foreground
            && mine.any(|(_, dependent)| dependent.wait == Some(Wait::Dependents))
            && unblock(server, read)
        {
            return;
        }
        delete(server, read, foreground);
    }

    /// Looks an owner up where its kind and name place it.
    fn find(&self, server: &Server, reference: &Reference) -> Owner {
        let Some(place) = &reference.owner else {
            return Owner::Unknown;
        };
        let Some(stored) = server.read(|store| store.get(&place.table, &place.key).cloned()) else {
            return Owner::Absent;
        };
        let object = stored.document.to_value(&self.no_kind, stored.revision);
        if metadata::text(&object, "uid") != reference.uid {
            return Owner::Absent;
        }
        if wait(&object) == Some(Wait::Dependents) { Owner::Leaving } else { Owner::Living }
    }
}

/// Whether an object may be of interest, without reading it.
fn matters(stored: &Stored) -> bool {
    stored.document.is_owned() || stored.document.is_terminating()
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}

fn wait(object: &Value) -> Option<Wait> {
    if !metadata::is_terminating(object) {
        return None;
    }
    let finalizers = metadata::finalizers(object);
    if finalizers.contains(&ORPHAN) {
        Some(Wait::Orphans)
    } else {
        finalizers.contains(&FOREGROUND).then_some(Wait::Dependents)
    }
}

fn text<'a>(owner: &'a Value, field: &str) -> &'a str {
    owner[field].as_str().unwrap_or_default()
}

/// Where an owner is: in the namespace of its dependent if its kind has namespaces. A kind that is no longer served had its
/// place too; there is nothing there any more.
fn place_of(registry: &Registry, namespace: &str, owner: &Value) -> Option<Place> {
    let api_version = text(owner, "apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = text(owner, "kind");
    let served = registry.by_kind(group, version, kind);
    let (table, namespaced) = match served {
        Some(served) => (served.storage().clone(), served.resource.namespaced),
        None => registry.retired(group, kind)?,
    };
    if namespaced && namespace.is_empty() {
        // A cluster-scoped object cannot be owned by one in a namespace: nobody knows which one is meant.
        return None;
    }
    let namespace = if namespaced { namespace } else { "" };
    Some(Place { table, key: Key::new(namespace, text(owner, "name")) })
}

fn drop_references(server: &Server, dependent: &Read, uids: &[String]) -> bool {
    let mut object = dependent.object.clone();
    let dropped: BTreeSet<&str> = uids.iter().map(String::as_str).collect();
    let kept = owners(&dependent.object).iter().filter(|owner| !dropped.contains(text(owner, "uid")));
    let rest: Vec<Value> = kept.cloned().collect();
    let fields = metadata::of(&mut object);
    if rest.is_empty() {
        fields.remove("ownerReferences");
    } else {
        fields.insert("ownerReferences".to_owned(), Value::Array(rest));
    }
    put_tracked(server, dependent, object)
}

/// Takes a finalizer away as kube-controller-manager does; what nothing else holds is gone then. Somebody else's change
/// prevails, which is a commit.
pub(crate) fn remove_finalizer(server: &Server, read: &Read, finalizer: &str) {
    let mut object = read.object.clone();
    let mut rest = metadata::owned_finalizers(&read.object);
    rest.retain(|known| known != finalizer);
    metadata::set_finalizers(&mut object, &rest);
    // What still has time to end by itself is not gone.
    let granted = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    if rest.is_empty() && granted == 0 && read.served.deletable(&object) {
        commit(server, read, Change::Delete);
    } else {
        put_tracked(server, read, object);
    }
}

/// Lets the owners of a dependent go before it. `false` if it blocks none; else it is looked at again after the commit.
fn unblock(server: &Server, read: &Read) -> bool {
    let mut object = read.object.clone();
    let owners = object["metadata"]["ownerReferences"].as_array_mut();
    let blocking = owners.into_iter().flatten().filter(|owner| owner["blockOwnerDeletion"] == true);
    let mut any = false;
    for owner in blocking {
        owner["blockOwnerDeletion"] = json!(false);
        any = true;
    }
    if any {
        put_tracked(server, read, object);
    }
    any
}

/// Deletes a dependent as a client would: what its kind or its finalizers hold is only marked.
fn delete(server: &Server, read: &Read, foreground: bool) {
    if read.served.admit_delete(read.place.key.name()).is_err() {
        return;
    }
    let mut finalizers = metadata::owned_finalizers(&read.object);
    if foreground && !finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
        finalizers.push(FOREGROUND.to_owned());
    }
    let deletion =
        begin_deletion(server, &read.served, &read.place.key, read.revision, &read.object, &finalizers);
    if deletion != Deletion::Changed {
        crate::crd::after_write(server, read.served.storage());
    }
}

/// Stores what the collector patched, as its client would have it.
fn put_tracked(server: &Server, read: &Read, mut object: Value) -> bool {
    update::track_as(server, &read.served, MANAGER, "", Some(&read.object), &mut object);
    commit(server, read, Change::Put(read.served.document(&object)))
}

/// `false` if the object changed meanwhile; that was a commit, so it is looked at again.
fn commit(server: &Server, read: &Read, change: Change) -> bool {
    let done = server.commit(read.served.storage(), &read.place.key, Some(read.revision), change, |_| {
        Ok::<(), std::convert::Infallible>(())
    });
    let done = !matches!(done, Err(Refused::Conflict));
    if done {
        crate::crd::after_write(server, read.served.storage());
    }
    done
}

#[cfg(test)]
mod tests;
