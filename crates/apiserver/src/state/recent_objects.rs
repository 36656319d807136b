//! Cache of the objects that were updated last, as values.
//!
//! The store keeps text, which an update must parse. Some objects are updated again and again: leases, and objects whose status an operator
//! reports. Each of their updates begins with the value that the previous one stored, so this value is kept.

use std::collections::BTreeMap;

use kube_apimachinery::metadata;
use parking_lot::Mutex;
use serde_json::Value;

use crate::kind::registry::ServedKind;
use crate::store::{Key, Stored};

/// Maximum length of the texts of all objects together, in bytes. Their values take several times this memory.
const LIMIT: usize = 256 << 10;

/// Values of the objects that were updated last.
#[derive(Debug, Default)]
pub(crate) struct RecentObjects(Mutex<Recent>);

/// ID of a served resource, and key of an object.
type ObjectId = (u64, Key);

#[derive(Debug, Default)]
struct Recent {
    objects: BTreeMap<ObjectId, RecentObject>,
    /// The objects by their numbers, the oldest first.
    order: BTreeMap<u64, ObjectId>,
    /// Number of the next object.
    next: u64,
    /// Length of the texts of all objects.
    length: usize,
}

#[derive(Debug)]
struct RecentObject {
    number: u64,
    revision: u64,
    /// Length of its text.
    length: usize,
    value: Value,
}

impl RecentObjects {
    /// Takes the value of a stored object, if it is known.
    pub(crate) fn take(&self, served: &ServedKind, key: &Key, stored: &Stored) -> Option<Value> {
        let known = self.0.lock().remove(&(served.id, key.clone()))?;
        // After a write that bypassed this cache the value is outdated, and stays removed.
        (known.revision == stored.revision).then_some(known.value)
    }

    /// Keeps the value with which an object was stored.
    pub(crate) fn put(&self, served: &ServedKind, key: &Key, stored: &Stored, mut value: Value) {
        let (revision, length) = (stored.revision, stored.document.len());
        // A longer object would evict most of the others.
        if length > LIMIT / 4 || !served.reads_what_it_writes(stored) || !is_read_as_written(served, &value) {
            return;
        }
        metadata::of(&mut value).insert("resourceVersion".to_owned(), revision.to_string().into());
        debug_assert_eq!(value, served.value(stored), "the value of a stored object");
        let id = (served.id, key.clone());
        let dropped = self.0.lock().add(id, |number| RecentObject { number, revision, length, value });
        // Without the lock, because a value consists of many parts.
        drop(dropped);
    }
}

impl Recent {
    fn remove(&mut self, id: &ObjectId) -> Option<RecentObject> {
        let object = self.objects.remove(id)?;
        self.order.remove(&object.number);
        self.length -= object.length;
        Some(object)
    }

    /// Adds an object. Returns those that it replaces: its former state, and the oldest ones above the limit.
    fn add(&mut self, id: ObjectId, object: impl FnOnce(u64) -> RecentObject) -> Vec<RecentObject> {
        let mut replaced: Vec<RecentObject> = self.remove(&id).into_iter().collect();
        let object = object(self.next);
        self.length += object.length;
        self.order.insert(self.next, id.clone());
        self.objects.insert(id, object);
        self.next += 1;
        while self.length > LIMIT
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            replaced.extend(self.remove(&oldest));
        }
        replaced
    }
}

/// Whether an object has the same value when it is read from its text. Numbers that are not Go integers may be written in another form.
fn is_read_as_written(served: &ServedKind, object: &Value) -> bool {
    let is = |field: &str, expected: &str| object[field].as_str() == Some(expected);
    is("apiVersion", &served.kind.api_version) && is("kind", &served.kind.kind) && has_plain_numbers(object)
}

fn has_plain_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64(),
        Value::Array(items) => items.iter().all(has_plain_numbers),
        Value::Object(fields) => fields.values().all(has_plain_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn config_map(name: &str, text: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": "1"}, "data": {"text": text},
        })
    }

    #[tokio::test]
    async fn the_value_of_a_stored_object_is_known_once_and_for_its_revision_only() {
        let server = testing::server();
        let call = testing::call(&server, "/api/v1/namespaces/default/configmaps/a");
        let (served, recent) = (&call.served, RecentObjects::default());
        let (key, value) = (Key::new("default", "a"), config_map("a", "x"));
        let stored = |revision| Stored::new(revision, served.document(&value));
        assert_eq!(recent.take(served, &key, &stored(7)), None);
        recent.put(served, &key, &stored(7), value.clone());
        assert_eq!(recent.take(served, &key, &stored(7)), Some(served.value(&stored(7))));
        assert_eq!(recent.take(served, &key, &stored(7)), None, "it was taken");
        recent.put(served, &key, &stored(7), value.clone());
        assert_eq!(recent.take(served, &key, &stored(8)), None, "another write came first");
        assert_eq!(recent.take(served, &key, &stored(7)), None);
        assert_eq!(recent.0.lock().length, 0);
    }

    #[tokio::test]
    async fn the_oldest_objects_are_dropped_above_the_limit() {
        let server = testing::server();
        let call = testing::call(&server, "/api/v1/namespaces/default/configmaps/a");
        let (served, recent) = (&call.served, RecentObjects::default());
        let text = "x".repeat(LIMIT / 10);
        let stored = |value: &Value| Stored::new(7, served.document(value));
        for number in 0..20 {
            let (key, value) = (Key::new("default", &number.to_string()), config_map("a", &text));
            recent.put(served, &key, &stored(&value), value.clone());
            assert!(recent.0.lock().length <= LIMIT);
        }
        let long = config_map("a", &"x".repeat(LIMIT / 2));
        recent.put(served, &Key::new("default", "long"), &stored(&long), long.clone());
        assert_eq!(recent.0.lock().objects.len(), 9, "one object does not replace the others");
        let value = config_map("a", &text);
        let is_known = |number: i32| {
            recent.take(served, &Key::new("default", &number.to_string()), &stored(&value)).is_some()
        };
        let known: Vec<i32> = (0..20).filter(|number| is_known(*number)).collect();
        assert_eq!(known, (11..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn values_that_are_read_in_another_form_are_not_kept() {
        let server = testing::server();
        let call = testing::call(&server, "/api/v1/namespaces/default/configmaps/a");
        for value in [json!(1.0), json!(1.5), json!(u64::MAX)] {
            let mut object = config_map("a", "x");
            assert!(is_read_as_written(&call.served, &object));
            object["data"] = json!({"list": [value]});
            assert!(!is_read_as_written(&call.served, &object), "{object}");
        }
        let mut object = config_map("a", "x");
        object["kind"] = json!("Secret");
        assert!(!is_read_as_written(&call.served, &object));
    }
}
