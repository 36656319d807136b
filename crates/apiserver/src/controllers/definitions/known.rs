//! Definitions in memory. After a write, only the changed definition is read again, and the definitions that wait for names that it frees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_apimachinery::metadata;
use serde_json::Value;

use super::{CLEANUP, names, put, served_resource};
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::state::ClusterState;
use crate::store::Key;

/// All definitions.
#[derive(Clone, Default)]
pub(super) struct KnownDefinitions {
    definitions: BTreeMap<Key, KnownDefinition>,
    /// Keys of the definitions of a group.
    groups: BTreeMap<String, BTreeSet<Key>>,
    /// Definitions that wait for the deletion of their objects, with the storage keys of the objects.
    deleting: BTreeMap<Key, StorageKey>,
}

/// A definition in the state that was read last.
#[derive(Clone)]
pub(super) struct KnownDefinition {
    revision: u64,
    pub(super) value: Arc<Value>,
    /// The resources that it defines and that are served.
    resources: Vec<Arc<ServedKind>>,
}

/// Changes of the served resources.
#[derive(Default)]
pub(super) struct ServedChanges {
    pub(super) removed: Vec<Arc<ServedKind>>,
    pub(super) added: Vec<Arc<ServedKind>>,
}

impl KnownDefinitions {
    /// Reads the changed definitions, accepts names, and returns how the served resources change.
    ///
    /// If a definition frees a name, the definitions of its group that wait for a name are processed next. A definition gets each of its
    /// names at most once, so the number of steps is limited.
    pub(super) fn settle(
        &mut self,
        cluster: &ClusterState,
        served: &ServedKind,
        mut due: BTreeSet<Key>,
    ) -> ServedChanges {
        let mut changes = ServedChanges::default();
        let limit = 2 * (self.definitions.len() + due.len());
        for _ in 0..limit {
            let Some(key) = due.pop_first() else { break };
            let before = self.definitions.get(&key).map(|known| Arc::clone(&known.value));
            if self.read(cluster, served, &key) {
                self.accept(cluster, served, &key);
                self.serve(cluster, &key, &mut changes);
            } else if let Some(known) = self.remove(&key) {
                changes.removed.extend(known.resources);
            }
            // Only an accepted name that the definition gives up, or its removal, frees a name for others.
            let after = self.definitions.get(&key).map(|known| &known.value);
            if let Some(before) = before
                && after.is_none_or(|after| accepted(after) != accepted(&before))
            {
                due.extend(self.waiting(group(&before)));
            }
        }
        changes
    }

    /// Returns the definitions that wait for the deletion of their objects, with the storage keys of the objects.
    pub(super) fn deleting(&self) -> &BTreeMap<Key, StorageKey> {
        &self.deleting
    }

    /// Returns the other definitions in the group of a definition.
    pub(super) fn others_in_group<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a Value> {
        let group = self.definitions.get(key).and_then(|known| self.groups.get(group(&known.value)));
        let others = group.into_iter().flatten().filter(move |other| *other != key);
        others.filter_map(|other| self.definitions.get(other)).map(|known| &*known.value)
    }

    /// Reads a definition again if it changed. Returns whether it exists.
    fn read(&mut self, cluster: &ClusterState, served: &ServedKind, key: &Key) -> bool {
        let stored = cluster.read(|store| store.get(served.storage(), key).cloned());
        let Some(stored) = stored else { return false };
        let known = self.definitions.get_mut(key);
        if known.as_ref().is_some_and(|known| known.revision == stored.revision) {
            return true;
        }
        let (revision, value) = (stored.revision, Arc::new(served.value(&stored)));
        if is_deleting(&value) {
            self.deleting.insert(key.clone(), served_resource::storage(&value));
        } else {
            self.deleting.remove(key);
        }
        match known {
            Some(known) => (known.revision, known.value) = (revision, value),
            None => {
                self.groups.entry(group(&value).to_owned()).or_default().insert(key.clone());
                let definition = KnownDefinition { revision, value, resources: Vec::new() };
                self.definitions.insert(key.clone(), definition);
            }
        }
        true
    }

    /// Removes a definition that no longer exists.
    fn remove(&mut self, key: &Key) -> Option<KnownDefinition> {
        let known = self.definitions.remove(key)?;
        self.deleting.remove(key);
        let group = group(&known.value);
        if let Some(keys) = self.groups.get_mut(group) {
            keys.remove(key);
            if keys.is_empty() {
                self.groups.remove(group);
            }
        }
        Some(known)
    }

    /// Accepts those names of a definition that are free, and establishes it if it has all of them.
    fn accept(&mut self, cluster: &ClusterState, served: &ServedKind, key: &Key) {
        // Three commits, because three controllers of kube-apiserver write these conditions, and clients watch each state. Each commit
        // replaces the known definition, so every step looks it up again.
        let Some(known) = self.definitions.get(key) else { return };
        if let Some(status) = names::show_approval(cluster, &known.value) {
            self.put_status(cluster, served, key, status);
        }
        let Some(known) = self.definitions.get(key) else { return };
        if let Some(status) = names::accept(cluster, &known.value, || self.others_in_group(key)) {
            self.put_status(cluster, served, key, status);
        }
        let Some(known) = self.definitions.get(key) else { return };
        if let Some(status) = names::establish(cluster, &known.value) {
            self.put_status(cluster, served, key, status);
        }
    }

    /// Stores a new `status`, and reads the definition again. If another write changed the definition, that write processes it again.
    fn put_status(&mut self, cluster: &ClusterState, served: &ServedKind, key: &Key, status: Value) {
        let Some(known) = self.definitions.get(key) else { return };
        let mut next = Value::clone(&known.value);
        next["status"] = status;
        names::track(cluster, served, &known.value, &mut next);
        if put(cluster, served, key, known.revision, &next) {
            self.read(cluster, served, key);
        }
    }

    /// Updates the served resources of a definition. Unchanged resources keep their identity.
    fn serve(&mut self, cluster: &ClusterState, key: &Key, changes: &mut ServedChanges) {
        let Some(known) = self.definitions.get_mut(key) else { return };
        let registry = cluster.registry();
        let old =
            std::mem::replace(&mut known.resources, served_resource::resources(&known.value, &registry));
        let new = &known.resources;
        let is_kept = |served: &&Arc<ServedKind>| new.iter().any(|one| Arc::ptr_eq(one, served));
        changes.removed.extend(old.iter().filter(|served| !is_kept(served)).cloned());
        changes.added.extend(new.iter().filter(|served| !registry.serves(served)).cloned());
    }

    /// Returns the definitions of a group that lack some of their names.
    fn waiting(&self, group: &str) -> Vec<Key> {
        let keys = self.groups.get(group).into_iter().flatten();
        let known = keys.filter_map(|key| Some((key, &self.definitions.get(key)?.value)));
        let waiting = known.filter(|(_, value)| value["spec"]["names"] != *accepted(value));
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the definitions in the order of their keys.
    #[cfg(test)]
    pub(super) fn values(&self) -> Vec<Arc<Value>> {
        self.definitions.values().map(|known| Arc::clone(&known.value)).collect()
    }
}

/// Whether a definition waits for the deletion of its objects.
pub(super) fn is_deleting(definition: &Value) -> bool {
    metadata::is_terminating(definition) && metadata::finalizers(definition).contains(&CLEANUP)
}

fn accepted(definition: &Value) -> &Value {
    &definition["status"]["acceptedNames"]
}

fn group(definition: &Value) -> &str {
    definition["spec"]["group"].as_str().unwrap_or_default()
}
