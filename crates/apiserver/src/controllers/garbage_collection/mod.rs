//! Garbage collector (profile [`Dev`](crate::Profile::Dev)): deletes dependents of deleted owners.
//!
//! As in Kubernetes, a graph of owner references ([`graph`], pure) is updated from the events of the store, and queues the objects that a
//! change affects. Actions are decided from the current state of the store, so the graph may lag behind: where it differs from the store,
//! an event is still to be processed.
//!
//! Bounds: the graph has one entry for each object that has owners or waits for its dependents, and one for each reference.

mod collector_writes;
mod graph;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_apimachinery::metadata;
use serde_json::Value;

use crate::kind::registry::{Registry, ServedKind};
use crate::kind::resource::StorageKey;
use crate::state::deletion::{FOREGROUND, ORPHAN};
use crate::state::{ClusterState, Turns};
use crate::store::{Key, Snapshot, StoreEvent, Stored, TypeMeta};
use collector_writes::{DeletionOrder, delete, drop_references, unblock};
pub(crate) use collector_writes::{ReadObject, remove_finalizer};
use graph::{Graph, GraphNode, OwnerReference, Place, Wait};

/// Number of dependents that lose their reference in one step.
const ORPHANS: usize = 16;
/// Number of objects without owners that are examined in one step.
const UNOWNED: usize = 64;

/// Collects garbage until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>) {
    let mut commits = cluster.commits();
    // The controllers of a server that begins in the state of another one wait until they are released.
    commits.released().await;
    let mut collector = Collector::new();
    loop {
        // Mark before the store is read, so that a commit during this round starts another one.
        commits.see();
        collector.catch_up(&cluster).await;
        let mut turns = Turns::default();
        while collector.collect_one(&cluster) {
            turns.pass().await;
        }
        commits.turn().await;
    }
}

struct Collector {
    graph: Graph,
    registry: Option<Arc<Registry>>,
    /// Followed tables, each with a resource to read them.
    tables: BTreeMap<StorageKey, Followed>,
    /// Revision up to which the graph is current.
    seen: u64,
    /// Type for reading metadata, which is equal for all kinds.
    no_kind: TypeMeta,
}

/// A table whose changes the graph follows.
struct Followed {
    served: Arc<ServedKind>,
    /// Whether the graph contains every object of the table at revision `seen`.
    known: bool,
}

/// Changes of a table since the last call of [`Collector::catch_up`].
enum TableChanges {
    Events(Vec<Arc<StoreEvent>>),
    /// The whole table, because the history does not reach back far enough.
    All(Snapshot),
}

/// State of the owner in a reference. [`Collector::collect_dependent`] says what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists, and is not being deleted in the foreground.
    Living,
    /// The owner is being deleted in the foreground: its dependents are deleted first.
    Leaving,
    /// No object has the kind, name and UID of the owner.
    Absent,
    /// The state is unknown, because the owner's kind was never served.
    Unknown,
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

    /// Updates the graph to the revision that the store has now. A cancelled call may leave the graph incomplete, but a cancelled collector
    /// is dropped.
    async fn catch_up(&mut self, cluster: &ClusterState) {
        let mut turns = Turns::default();
        let registry = cluster.registry();
        if !self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            self.registry = Some(Arc::clone(&registry));
            self.follow(cluster, &registry, &mut turns).await;
        }
        // All tables are read under one lock, so that the events and the revision belong together.
        let (news, now) = cluster.read(|store| {
            let mut news = Vec::new();
            for (table, followed) in &self.tables {
                match store.events_after(table, self.seen, usize::MAX) {
                    Ok(events) if followed.known => {
                        if !events.is_empty() {
                            news.push((table.clone(), TableChanges::Events(events)));
                        }
                    }
                    _ => news.push((table.clone(), TableChanges::All(store.snapshot(table)))),
                }
            }
            (news, store.revision())
        });
        for (table, news) in news {
            match news {
                TableChanges::Events(events) => {
                    for event in events {
                        self.apply_event(&registry, &table, &event);
                        turns.pass().await;
                    }
                }
                // Deletions in between are unknown, so the nodes of the table are rebuilt, and the dependents of all its objects are
                // queued.
                TableChanges::All(snapshot) => self.rebuild(&registry, &table, &snapshot, &mut turns).await,
            }
            if let Some(followed) = self.tables.get_mut(&table) {
                followed.known = true;
            }
        }
        self.seen = now;
    }

    /// Follows the tables that are served now, and removes the others.
    async fn follow(&mut self, cluster: &ClusterState, registry: &Registry, turns: &mut Turns) {
        let mut old = std::mem::take(&mut self.tables);
        let mut any_new = false;
        for served in registry.one_per_table() {
            let known = old.remove(served.storage()).is_some_and(|followed| followed.known);
            if !known {
                self.resolve(cluster, registry, served.storage(), turns).await;
                any_new = true;
            }
            self.tables.insert(served.storage().clone(), Followed { served, known });
        }
        // References to unknown kinds may be resolvable now.
        if any_new {
            let mut last = None;
            while let Some(place) = self.graph.unresolved(last.as_ref()) {
                self.reread(cluster, registry, place.clone());
                last = Some(place);
                turns.pass().await;
            }
        }
        for table in old.into_keys() {
            self.forget(&table, turns).await;
            self.queue_dependents_of(&table, turns).await;
        }
    }

    /// Builds the nodes of all objects that refer to a new table again. If its kind was served before, the scope of the kind may have
    /// changed, and with it the places of the owners.
    async fn resolve(
        &mut self,
        cluster: &ClusterState,
        registry: &Registry,
        table: &StorageKey,
        turns: &mut Turns,
    ) {
        let mut owner = self.graph.owner_in(table, None);
        while let Some(referred) = owner {
            let mut last = None;
            while let Some(place) = self.graph.dependent_of(&referred, last.as_ref()) {
                self.reread(cluster, registry, place.clone());
                last = Some(place);
                turns.pass().await;
            }
            owner = self.graph.owner_in(table, Some(&referred));
        }
    }

    /// Removes the nodes of a table.
    async fn forget(&mut self, table: &StorageKey, turns: &mut Turns) {
        while let Some(place) = self.graph.node_in(table, None) {
            self.graph.set(place, None);
            turns.pass().await;
        }
    }

    /// Queues the dependents of all objects of a table, whether these objects exist or not.
    async fn queue_dependents_of(&mut self, table: &StorageKey, turns: &mut Turns) {
        let mut last = None;
        while let Some(owner) = self.graph.owner_in(table, last.as_ref()) {
            self.graph.queue_dependents(&owner);
            last = Some(owner);
            turns.pass().await;
        }
    }

    /// Updates the graph after a change of one object.
    fn apply_event(&mut self, registry: &Registry, table: &StorageKey, event: &StoreEvent) {
        let place = Place { table: table.clone(), key: event.key.clone() };
        // Most objects have no owners and are not being deleted, which is known without parsing them.
        let may_need =
            |stored: &Option<Arc<Stored>>| stored.as_ref().is_some_and(|stored| may_need_node(stored));
        if may_need(&event.after) || may_need(&event.before) {
            let node = event.after.as_ref().and_then(|stored| self.node(registry, &place, stored));
            self.graph.set(place.clone(), node);
        }
        // A foreground deletion waits for the dependents, so they are queued when it begins.
        if event.after.as_ref().is_none_or(|stored| stored.document.is_terminating()) {
            self.graph.queue_dependents(&place);
        }
    }

    /// Builds the nodes of a table again.
    async fn rebuild(
        &mut self,
        registry: &Registry,
        table: &StorageKey,
        snapshot: &Snapshot,
        turns: &mut Turns,
    ) {
        self.forget(table, turns).await;
        for (index, (key, stored)) in snapshot.range("", None).enumerate() {
            if may_need_node(stored) {
                let place = Place { table: table.clone(), key: key.clone() };
                let node = self.node(registry, &place, stored);
                self.graph.set(place, node);
                turns.pass().await;
            } else if index % UNOWNED == 0 {
                turns.pass().await;
            }
        }
        self.queue_dependents_of(table, turns).await;
    }

    /// Builds the node of one object again.
    fn reread(&mut self, cluster: &ClusterState, registry: &Registry, place: Place) {
        let stored = cluster.read(|store| store.get(&place.table, &place.key).cloned());
        let node = stored.and_then(|stored| self.node(registry, &place, &stored));
        self.graph.set(place, node);
    }

    /// Builds the node of an object. Returns `None` if it needs none.
    fn node(&self, registry: &Registry, place: &Place, stored: &Stored) -> Option<GraphNode> {
        let object = stored.document.to_value(&self.no_kind, stored.revision);
        let owners: Vec<OwnerReference> = owners(&object)
            .iter()
            .map(|owner| OwnerReference {
                uid: text(owner, "uid").to_owned(),
                owner: place_of(registry, place.key.namespace(), owner),
                blocks: owner["blockOwnerDeletion"] == true,
            })
            .collect();
        let wait = wait(&object);
        (wait.is_some() || !owners.is_empty()).then(|| GraphNode {
            uid: metadata::text(&object, "uid").to_owned(),
            owners,
            wait,
        })
    }

    /// Processes one object of the work queue. Returns `false` if the queue is empty.
    ///
    /// An object that has changed after [`seen`](Self::seen) is skipped, because the event of that change queues it again. So the graph has
    /// the current owner references of each object that is processed. The commit expects the revision that was read, so it cannot delete an
    /// object whose references have changed since.
    fn collect_one(&mut self, cluster: &ClusterState) -> bool {
        let Some(place) = self.graph.next() else { return false };
        if let Some(node) = self.graph.node(&place)
            && let Some(read) = self.read(cluster, &place)
            && read.stored.revision <= self.seen
        {
            self.process(cluster, node, &read);
        }
        true
    }

    /// Processes an object with an up-to-date node.
    fn process(&self, cluster: &ClusterState, node: &GraphNode, read: &ReadObject) {
        match node.wait {
            Some(Wait::Orphans) => self.orphan(cluster, node, read),
            Some(Wait::Dependents) => {
                let mut dependents = self.graph.dependents(&read.place, &node.uid);
                if !dependents.any(|(_, dependent)| dependent.blocks(&node.uid)) {
                    remove_finalizer(cluster, read, FOREGROUND);
                }
            }
            None => {}
        }
        if !node.owners.is_empty() {
            self.collect_dependent(cluster, node, read);
        }
    }

    /// Reads the object at a place. Returns `None` if it does not exist.
    fn read(&self, cluster: &ClusterState, place: &Place) -> Option<ReadObject> {
        let served = Arc::clone(&self.tables.get(&place.table)?.served);
        let stored = cluster.read(|store| store.get(&place.table, &place.key).cloned())?;
        let object = served.value(&stored);
        Some(ReadObject { served, place: place.clone(), stored, object })
    }

    /// Removes the references to an owner from its dependents, then the finalizer from the owner. One step changes at most [`ORPHANS`]
    /// dependents; each of these commits queues the owner again.
    fn orphan(&self, cluster: &ClusterState, node: &GraphNode, owner: &ReadObject) {
        let dependents = self.graph.dependents(&owner.place, &node.uid).map(|(place, _)| place.clone());
        let dependents: Vec<Place> = dependents.take(ORPHANS).collect();
        let mut all = dependents.len() < ORPHANS;
        for dependent in dependents {
            if let Some(dependent) = self.read(cluster, &dependent) {
                all &= drop_references(cluster, &dependent, std::slice::from_ref(&node.uid));
            }
        }
        // A dependent that another write changed still has its reference. The commit of that write queues the owner again.
        if all {
            remove_finalizer(cluster, owner, ORPHAN);
        }
    }

    /// Deletes a dependent without living owners, or removes its references to owners that are not living:
    ///
    /// | states of its owners | effect |
    /// |---|---|
    /// | any, and the dependent is being deleted | none |
    /// | at least one `Unknown` | none |
    /// | otherwise, at least one `Living` | references to all `Absent` and `Leaving` owners are removed |
    /// | otherwise, at least one `Leaving`, and the dependent has dependents | deletion in the foreground |
    /// | otherwise | deletion |
    fn collect_dependent(&self, cluster: &ClusterState, node: &GraphNode, read: &ReadObject) {
        if metadata::is_terminating(&read.object) {
            return;
        }
        let states: Vec<(OwnerState, &str)> = node
            .owners
            .iter()
            .map(|reference| (self.owner_state(cluster, reference), reference.uid.as_str()))
            .collect();
        let with = |wanted: OwnerState| {
            states.iter().filter(move |(state, _)| *state == wanted).map(|(_, uid)| (*uid).to_owned())
        };
        // The unknown owner may exist, so the dependent is kept.
        if with(OwnerState::Unknown).next().is_some() {
            return;
        }
        if with(OwnerState::Living).next().is_some() {
            let dangling: Vec<String> = with(OwnerState::Absent).chain(with(OwnerState::Leaving)).collect();
            if !dangling.is_empty() {
                drop_references(cluster, read, &dangling);
            }
            return;
        }
        // If the owner is deleted in the foreground, a dependent with dependents of its own is deleted in the foreground as well.
        let mut mine = self.graph.dependents(&read.place, &node.uid).peekable();
        let order = if with(OwnerState::Leaving).next().is_some() && mine.peek().is_some() {
            DeletionOrder::DependentsFirst
        } else {
            DeletionOrder::OwnerFirst
        };
        // In a cycle, one of its dependents may wait for this object. Then this object must not wait for its dependents.
        if order == DeletionOrder::DependentsFirst
            && mine.any(|(_, dependent)| dependent.wait == Some(Wait::Dependents))
            && unblock(cluster, read)
        {
            return;
        }
        delete(cluster, read, order);
    }

    /// Looks up the state of an owner by kind and name.
    fn owner_state(&self, cluster: &ClusterState, reference: &OwnerReference) -> OwnerState {
        let Some(place) = &reference.owner else {
            return OwnerState::Unknown;
        };
        let Some(stored) = cluster.read(|store| store.get(&place.table, &place.key).cloned()) else {
            return OwnerState::Absent;
        };
        let object = stored.document.to_value(&self.no_kind, stored.revision);
        // The owner was deleted, and another object has taken its name.
        if metadata::text(&object, "uid") != reference.uid {
            return OwnerState::Absent;
        }
        if wait(&object) == Some(Wait::Dependents) { OwnerState::Leaving } else { OwnerState::Living }
    }
}

/// Whether an object may need a node, decided without parsing it.
fn may_need_node(stored: &Stored) -> bool {
    stored.document.is_owned() || stored.document.is_terminating()
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the reason why an object that is being deleted waits, if it does.
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

/// Returns the place of an owner, in the namespace of its dependent if the owner's kind is namespaced. Owners of kinds that are no longer
/// served have a place too, at which nothing exists.
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
        // A cluster-scoped object cannot have a namespaced owner, because the namespace of the owner would be unknown.
        return None;
    }
    let namespace = if namespaced { namespace } else { "" };
    Some(Place { table, key: Key::new(namespace, text(owner, "name")) })
}

#[cfg(test)]
mod tests;
