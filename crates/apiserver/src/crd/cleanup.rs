//! The end of a definition: its objects go first, then it goes itself.

use serde_json::{Value, json};

use super::names::{condition, set_condition, track};
use super::{CLEANUP, all, commit, put};
use crate::registry::Served;
use crate::resource::StorageKey;
use crate::server::Server;
use crate::store::{Change, Key};
use crate::verbs::metadata;

/// Deletes the objects of definitions that are being deleted, and the definitions that have none left.
pub(super) fn run(server: &Server, served: &Served) {
    for (key, revision, definition) in all(server, served) {
        if metadata::is_terminating(&definition) && metadata::finalizers(&definition).contains(&CLEANUP) {
            finish(server, served, &key, revision, &definition);
        }
    }
}

fn finish(server: &Server, served: &Served, key: &Key, mut revision: u64, definition: &Value) {
    let mut definition = definition.clone();
    let storage = StorageKey {
        group: definition["spec"]["group"].as_str().unwrap_or_default().to_owned(),
        plural: definition["status"]["acceptedNames"]["plural"].as_str().unwrap_or_default().to_owned(),
    };
    let established = condition(&definition, "Established") == "True";
    if established && reason(&definition) == "InstanceDeletionPending" {
        let mut next = definition.clone();
        let message = "CustomResource deletion is in progress";
        set_condition(server, &mut next, "Terminating", "True", "InstanceDeletionInProgress", message);
        track(server, served, &definition, &mut next);
        if !put(server, served, key, revision, &next) {
            return;
        }
        let Some(stored) = server.read(|store| store.get(served.storage(), key).cloned()) else {
            return;
        };
        revision = stored.revision;
        definition = served.value(&stored);
    }
    // At every look, because an object that was changed meanwhile escapes one.
    if established {
        delete_instances(server, &storage);
    }
    if established && server.read(|store| store.snapshot(&storage).len() > 0) {
        return;
    }
    let finalizers: Vec<String> = metadata::finalizers(&definition)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .map(str::to_owned)
        .collect();
    if finalizers.is_empty() {
        commit(server, served, key, revision, Change::Delete);
    } else {
        metadata::set_finalizers(&mut definition, &finalizers);
        put(server, served, key, revision, &definition);
    }
}

fn reason(definition: &Value) -> &str {
    definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Terminating")
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

/// Deletes every object of a table, and marks those that finalizers hold.
fn delete_instances(server: &Server, storage: &StorageKey) {
    let Some(served) = server.registry().all().find(|served| served.storage() == storage).cloned() else {
        return;
    };
    let snapshot = server.read(|store| store.snapshot(storage));
    for (key, stored) in snapshot.range("", None) {
        let mut object = served.value(stored);
        let change = if metadata::finalizers(&object).is_empty() {
            Change::Delete
        } else if metadata::is_terminating(&object) {
            continue;
        } else {
            let fields = metadata::of(&mut object);
            fields.insert("deletionTimestamp".to_owned(), json!(server.clock.now_seconds()));
            fields.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
            metadata::raise_generation(&mut object);
            Change::Put(served.document(&object))
        };
        // Whoever changed the object meanwhile makes this definition be looked at again.
        commit(server, &served, key, stored.revision, change);
    }
}
