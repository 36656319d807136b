//! Garbage collection (profile [`Dev`](crate::Profile::Dev)): dependents follow their owners.
//!
//! The collector looks at the state, not at events: after each burst of commits it takes a snapshot of every table and
//! does what is due, until nothing is. That is simple enough to be right, and cheap enough for what an embedded server
//! holds: a pass reads every object with owners, or being deleted, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::registry::{Registry, Served};
use crate::server::{Refused, Server};
use crate::store::{Change, Key};
use crate::verbs::delete::{Deletion, FOREGROUND, ORPHAN, begin_deletion};
use crate::verbs::{metadata, update};

/// Who owns the fields that the collector writes.
const MANAGER: &str = "kube-controller-manager";

/// Collects until its task is aborted.
pub(crate) async fn run(server: Arc<Server>) {
    let mut commits = server.commits();
    loop {
        commits.borrow_and_update();
        pass(&server);
        if commits.changed().await.is_err() {
            return;
        }
    }
}

/// An object that owns, is owned, or waits for its dependents.
struct Node {
    served: Arc<Served>,
    key: Key,
    revision: u64,
    object: Value,
}

impl Node {
    fn uid(&self) -> &str {
        metadata::text(&self.object, "uid")
    }

    fn namespace(&self) -> &str {
        metadata::text(&self.object, "namespace")
    }

    fn owners(&self) -> &[Value] {
        self.object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
    }

    fn waits_for(&self, finalizer: &str) -> bool {
        metadata::is_terminating(&self.object) && metadata::finalizers(&self.object).contains(&finalizer)
    }
}

/// What an owner reference leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Living,
    /// Being deleted in the foreground: its dependents go first.
    Leaving,
    Absent,
    /// Of a kind that is not served: nothing is known about it.
    Unknown,
}

/// Does everything that is due now.
fn pass(server: &Server) {
    let registry = server.registry();
    let nodes = nodes(server, &registry);
    let mut dependents: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in &nodes {
        for owner in node.owners() {
            dependents.entry(owner["uid"].as_str().unwrap_or_default()).or_default().push(node);
        }
    }
    for node in &nodes {
        if node.waits_for(ORPHAN) {
            orphan(server, node, dependents.get(node.uid()).map_or(&[], Vec::as_slice));
        } else if node.waits_for(FOREGROUND) {
            let blocking = dependents
                .get(node.uid())
                .into_iter()
                .flatten()
                .any(|dependent| blocks(dependent, node.uid()) && dependent.namespace_agrees(node));
            if !blocking {
                remove_finalizer(server, node, FOREGROUND);
            }
        }
        if !node.owners().is_empty() {
            collect(server, &registry, node, &dependents);
        }
    }
}

impl Node {
    /// An owner is cluster-scoped or in the namespace of its dependent.
    fn namespace_agrees(&self, owner: &Self) -> bool {
        owner.namespace().is_empty() || owner.namespace() == self.namespace()
    }
}

/// The objects that matter to the collector.
fn nodes(server: &Server, registry: &Registry) -> Vec<Node> {
    let mut nodes = Vec::new();
    for served in registry.one_per_table() {
        let snapshot = server.read(|store| store.snapshot(served.storage()));
        for (key, stored) in snapshot.range("", None) {
            // Most objects neither have owners nor are being deleted, which is known without reading them.
            if stored.document.is_owned() || stored.document.is_terminating() {
                nodes.push(Node {
                    served: Arc::clone(&served),
                    key: key.clone(),
                    revision: stored.revision,
                    object: served.value(stored),
                });
            }
        }
    }
    nodes
}

/// Whether `dependent` keeps the owner from going.
fn blocks(dependent: &Node, uid: &str) -> bool {
    dependent.owners().iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
}

/// Takes the owner's references away from its dependents, then its finalizer.
fn orphan(server: &Server, owner: &Node, dependents: &[&Node]) {
    let mut all = true;
    for dependent in dependents {
        all &= drop_references(server, dependent, &[owner.uid().to_owned()]);
    }
    if all {
        remove_finalizer(server, owner, ORPHAN);
    }
}

fn drop_references(server: &Server, dependent: &Node, uids: &[String]) -> bool {
    let mut object = dependent.object.clone();
    let rest: Vec<Value> = dependent
        .owners()
        .iter()
        .filter(|owner| !uids.iter().any(|uid| owner["uid"] == uid.as_str()))
        .cloned()
        .collect();
    let fields = metadata::of(&mut object);
    if rest.is_empty() {
        fields.remove("ownerReferences");
    } else {
        fields.insert("ownerReferences".to_owned(), Value::Array(rest));
    }
    put_tracked(server, dependent, object)
}

fn remove_finalizer(server: &Server, node: &Node, finalizer: &str) {
    let mut object = node.object.clone();
    let rest: Vec<String> = metadata::finalizers(&node.object)
        .into_iter()
        .filter(|known| *known != finalizer)
        .map(str::to_owned)
        .collect();
    metadata::set_finalizers(&mut object, &rest);
    if rest.is_empty() && node.served.deletable(&object) {
        commit(server, node, Change::Delete);
    } else {
        put_tracked(server, node, object);
    }
}

/// Deletes a dependent whose owners are gone; one with a living owner only loses the references to the others.
fn collect(server: &Server, registry: &Registry, node: &Node, dependents: &BTreeMap<&str, Vec<&Node>>) {
    let states: Vec<(Owner, String)> = node
        .owners()
        .iter()
        .map(|owner| {
            (find(server, registry, node, owner), owner["uid"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let with =
        |wanted: Owner| states.iter().filter(move |(state, _)| *state == wanted).map(|(_, uid)| uid.clone());
    if with(Owner::Unknown).next().is_some() {
        return;
    }
    let leaving: Vec<String> = with(Owner::Leaving).collect();
    let absent: Vec<String> = with(Owner::Absent).collect();
    if with(Owner::Living).next().is_some() {
        let dangling: Vec<String> = absent.into_iter().chain(leaving).collect();
        if !dangling.is_empty() {
            drop_references(server, node, &dangling);
        }
        return;
    }
    if metadata::is_terminating(&node.object) {
        return;
    }
    // A dependent that its own dependents would block goes in the foreground too, if its owner does.
    let mine = dependents.get(node.uid()).map_or(&[][..], Vec::as_slice);
    let foreground = !leaving.is_empty() && !mine.is_empty();
    // One of them waits already, perhaps, by a circle, for this very object: it must not wait for anything itself.
    if foreground && mine.iter().any(|dependent| dependent.waits_for(FOREGROUND)) && unblock(server, node) {
        return;
    }
    delete(server, node, foreground);
}

/// Lets the owners of a dependent go before it. `false` if it blocks none; else another pass follows the commit.
fn unblock(server: &Server, node: &Node) -> bool {
    let mut object = node.object.clone();
    let owners = object["metadata"]["ownerReferences"].as_array_mut();
    let blocking = owners.into_iter().flatten().filter(|owner| owner["blockOwnerDeletion"] == true);
    let mut any = false;
    for owner in blocking {
        owner["blockOwnerDeletion"] = json!(false);
        any = true;
    }
    if any {
        put_tracked(server, node, object);
    }
    any
}

/// Deletes a dependent as a client would: what its kind or its finalizers hold is only marked.
fn delete(server: &Server, node: &Node, foreground: bool) {
    if node.served.admit_delete(node.key.name()).is_err() {
        return;
    }
    let mut finalizers = metadata::owned_finalizers(&node.object);
    if foreground && !finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
        finalizers.push(FOREGROUND.to_owned());
    }
    let deletion = begin_deletion(server, &node.served, &node.key, node.revision, &node.object, &finalizers);
    if deletion != Deletion::Changed {
        crate::crd::after_write(server, node.served.storage());
    }
}

/// Looks an owner up by kind and name, in the namespace of its dependent if the kind has namespaces.
fn find(server: &Server, registry: &Registry, node: &Node, owner: &Value) -> Owner {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let Some(served) = registry.by_kind(group, version, text("kind")) else {
        return Owner::Unknown;
    };
    if served.resource.namespaced && node.namespace().is_empty() {
        // A cluster-scoped object cannot be owned by one in a namespace: nobody knows which one is meant.
        return Owner::Unknown;
    }
    let namespace = if served.resource.namespaced { node.namespace() } else { "" };
    let key = Key::new(namespace, text("name"));
    let Some(stored) = server.read(|store| store.get(served.storage(), &key).cloned()) else {
        return Owner::Absent;
    };
    let object = served.value(&stored);
    if metadata::text(&object, "uid") != text("uid") {
        return Owner::Absent;
    }
    let leaving = metadata::is_terminating(&object) && metadata::finalizers(&object).contains(&FOREGROUND);
    if leaving { Owner::Leaving } else { Owner::Living }
}

/// Stores what the collector patched, as its client would have it.
fn put_tracked(server: &Server, node: &Node, mut object: Value) -> bool {
    update::track_as(server, &node.served, MANAGER, "", Some(&node.object), &mut object);
    put(server, node, &object)
}

fn put(server: &Server, node: &Node, object: &Value) -> bool {
    commit(server, node, Change::Put(node.served.document(object)))
}

/// `false` if the object changed meanwhile; that was a commit, so another pass follows.
fn commit(server: &Server, node: &Node, change: Change) -> bool {
    let done = server.commit(node.served.storage(), &node.key, Some(node.revision), change, |_| {
        Ok::<(), std::convert::Infallible>(())
    });
    let done = !matches!(done, Err(Refused::Conflict));
    if done {
        crate::crd::after_write(server, node.served.storage());
    }
    done
}
