//! The end of a definition: its objects go first, then it goes itself.

use serde_json::Value;

use super::names::{condition, set_condition, track};
use super::{CLEANUP, all, commit, put, resource};
use crate::registry::Served;
use crate::resource::StorageKey;
use crate::server::Server;
use crate::store::{Change, Key, Snapshot};
use crate::verbs::delete::begin_deletion;
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
    if established && !resource::is_builtin(&definition, &server.registry()) {
        let snapshot = server.read(|store| store.snapshot(&storage));
        // Objects of a version that is not served are deleted as well.
        if let Some(instances) = resource::of_storage(&definition, &server.registry()) {
            delete_instances(server, &instances, &snapshot);
        }
        if server.read(|store| store.snapshot(&storage).len() > 0) {
            return;
        }
    }
    let finalizers: Vec<String> = metadata::finalizers(&definition)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .map(str::to_owned)
        .collect();
    if finalizers.is_empty() {
        if commit(server, served, key, revision, Change::Delete)
            && !server.registry().tables().contains(&storage)
        {
            // Nothing was served of it, so that nobody else will close it.
            server.close(&storage);
        }
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

/// Deletes the objects of a table as they were when the snapshot was taken, and marks those that finalizers hold.
fn delete_instances(server: &Server, served: &Served, snapshot: &Snapshot) {
    for (key, stored) in snapshot.range("", None) {
        let object = served.value(stored);
        let finalizers = metadata::owned_finalizers(&object);
        // Whoever changed the object meanwhile makes this definition be looked at again.
        begin_deletion(server, served, key, stored.revision, &object, &finalizers);
    }
}
