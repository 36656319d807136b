//! Empty lists and maps of a decoded object. Go distinguishes them from absent ones, but neither JSON with `omitempty` nor protobuf does.

use serde_json::{Map, Value};

use super::{Count, GoType, Message};

/// Empty lists and maps of an object as a client sent it, with their places. Messages of kube-apiserver show them as `[]` and `{}` instead of
/// `null`, and some of its comparisons count them as changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmptyCollections {
    places: Vec<EmptyPlace>,
}

/// Place of an empty list or map.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EmptyPlace {
    path: Vec<Step>,
    count: Count,
    /// Whether it is a part of a label selector, which messages show with `omitempty`.
    is_of_selector: bool,
}

/// Part of the path to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
}

impl EmptyCollections {
    /// Finds the places in an object before [`complete`](super::complete) removes them. Its own metadata are not searched: no message shows
    /// them.
    #[must_use]
    pub fn of(message: &'static Message, object: &Value) -> Self {
        let mut found = Self::default();
        let mut others = object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata");
        if others.any(|(_, value)| holds_empty(value)) {
            found.search(message, object, &mut Vec::new());
        }
        found
    }

    /// Whether the object has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Forgets the places in those fields of the object that `keep` rejects by their name.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.places.retain(|place| matches!(place.path.first(), Some(Step::Field(name)) if keep(name)));
    }

    /// Puts the lists and maps back into an object where it has no value, or null, in an existing struct.
    pub fn put_into(&self, object: &mut Value) {
        Self::put(self.places.iter(), object);
    }

    /// Like [`put_into`](Self::put_into), but only those that messages show.
    pub fn show_in(&self, object: &mut Value) {
        Self::put(self.places.iter().filter(|place| !place.is_of_selector), object);
    }

    fn put<'a>(places: impl Iterator<Item = &'a EmptyPlace>, object: &mut Value) {
        for EmptyPlace { path, count, .. } in places {
            let Some((last, parents)) = path.split_last() else { continue };
            let parent = parents.iter().try_fold(&mut *object, |value, step| match step {
                Step::Field(name) => value.get_mut(name),
                Step::Index(index) => value.get_mut(*index),
            });
            let (Some(Value::Object(fields)), Step::Field(name)) = (parent, last) else { continue };
            if fields.get(name).is_none_or(Value::is_null) {
                let empty = if *count == Count::Map { Map::new().into() } else { Vec::<Value>::new().into() };
                fields.insert(name.clone(), empty);
            }
        }
    }

    fn search(&mut self, message: &'static Message, value: &Value, path: &mut Vec<Step>) {
        let is_of_selector = message.name().starts_with("meta.v1.LabelSelector");
        for (name, value) in value.as_object().into_iter().flatten() {
            if path.is_empty() && name == "metadata" {
                continue;
            }
            let Some(field) = message.slot(name).map(|slot| slot.field) else { continue };
            path.push(Step::Field(name.clone()));
            match (field.count, field.kind, value) {
                (Count::List, _, Value::Array(items)) if items.is_empty() => {
                    self.places.push(EmptyPlace { path: path.clone(), count: Count::List, is_of_selector });
                }
                (Count::Map, _, Value::Object(entries)) if entries.is_empty() => {
                    self.places.push(EmptyPlace { path: path.clone(), count: Count::Map, is_of_selector });
                }
                (Count::One, GoType::Message(inner), value) => self.search(inner, value, path),
                (Count::List, GoType::Message(inner), Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        path.push(Step::Index(index));
                        self.search(inner, item, path);
                        path.pop();
                    }
                }
                (Count::Map, GoType::Message(inner), Value::Object(entries)) => {
                    for (key, entry) in entries {
                        path.push(Step::Field(key.clone()));
                        self.search(inner, entry, path);
                        path.pop();
                    }
                }
                _ => {}
            }
            path.pop();
        }
    }
}

/// Whether a value contains an empty list or object.
fn holds_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(holds_empty),
        Value::Object(fields) => fields.is_empty() || fields.values().any(holds_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::go_struct::{complete, message_of_kind};

    #[test]
    fn empty_lists_and_maps_are_put_back_after_completion() {
        let pod = message_of_kind("v1", "Pod").unwrap();
        let sent = json!({
            "metadata": {"labels": {}},
            "spec": {
                "nodeSelector": {},
                "volumes": [{"name": "a", "configMap": {"items": []}}],
                "containers": [{"name": "a", "ports": [], "resources": {"requests": {}}, "securityContext": {}}],
            },
        });
        let mut object = sent.clone();
        complete(pod, &mut object);
        let completed = object.clone();
        assert_eq!(completed.pointer("/spec/nodeSelector"), None);
        let found = EmptyCollections::of(pod, &sent);
        assert!(!found.is_empty() && EmptyCollections::of(pod, &completed).is_empty());
        found.put_into(&mut object);
        let mut expected = sent;
        expected["metadata"] = json!({});
        expected["status"] = json!({});
        assert_eq!(object, expected);
        let mut forgotten = found.clone();
        forgotten.retain(|name| name != "spec");
        assert!(forgotten.is_empty());
        let policy = message_of_kind("networking.k8s.io/v1", "NetworkPolicy").unwrap();
        let sent = json!({"spec": {"podSelector": {"matchLabels": {}}, "ingress": []}});
        let (mut all, mut shown) =
            (json!({"spec": {"podSelector": {}}}), json!({"spec": {"podSelector": {}}}));
        EmptyCollections::of(policy, &sent).put_into(&mut all);
        EmptyCollections::of(policy, &sent).show_in(&mut shown);
        assert_eq!((all, shown), (sent, json!({"spec": {"podSelector": {}, "ingress": []}})));
        // Values that were set meanwhile stay, and missing structs are not created.
        let mut changed = json!({"spec": {"nodeSelector": {"a": "b"}, "containers": []}});
        let before = changed.clone();
        found.put_into(&mut changed);
        assert_eq!(changed, before);
    }
}
