use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::object::Object;

/// A change of an object, as the API server is told of it.
///
/// ```
/// use controller_runtime::client::Patch;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// let roses = Patch::merge(&json!({ "data": { "theme": "roses" } }));
/// let test_first = Patch::json(&json!([
///     { "op": "test", "path": "/data/theme", "value": "roses" },
///     { "op": "remove", "path": "/data/theme" },
/// ]));
///
/// let old = ConfigMap::default(); // as it was read
/// let mut new = old.clone();
/// new.immutable = Some(true);
/// let difference = Patch::between(&old, &new).with_version_of(&old);
/// # drop((roses, test_first, difference));
/// ```
#[derive(Debug)]
pub struct Patch {
    pub(super) content_type: &'static str,
    pub(super) body: Result<Value, serde_json::Error>,
}

impl Patch {
    /// A JSON merge patch (RFC 7386): fields given are set, those given as `null` removed, lists replaced.
    #[doc(alias = "MergePatchType")]
    pub fn merge(patch: &impl Serialize) -> Self {
        Self { content_type: "application/merge-patch+json", body: serde_json::to_value(patch) }
    }

    /// A JSON patch (RFC 6902): a list of operations, `test` among them.
    #[doc(alias = "JSONPatchType")]
    pub fn json(operations: &impl Serialize) -> Self {
        Self { content_type: "application/json-patch+json", body: serde_json::to_value(operations) }
    }

    /// A strategic merge patch: as [`Patch::merge`], but lists with a merge key are merged. For builtin kinds only.
    #[doc(alias = "StrategicMergePatchType")]
    pub fn strategic(patch: &impl Serialize) -> Self {
        Self { content_type: "application/strategic-merge-patch+json", body: serde_json::to_value(patch) }
    }

    /// The merge patch that makes `new` of `old`.
    ///
    /// It says nothing of the version, so that it also applies to an object that has changed since: see
    /// [`Patch::with_version_of`].
    #[doc(alias = "MergeFrom")]
    pub fn between<K: Serialize>(old: &K, new: &K) -> Self {
        let difference = serde_json::to_value(old).and_then(|old| {
            let new = serde_json::to_value(new)?;
            Ok(difference(&old, &new).unwrap_or_else(|| json!({})))
        });
        Self { content_type: "application/merge-patch+json", body: difference }
    }

    /// Fails with a conflict if the object is no longer the version that `object` is.
    ///
    /// For merge patches; in a JSON patch, a `test` of `/metadata/resourceVersion` does the same.
    #[doc(alias = "MergeFromWithOptimisticLock")]
    #[must_use]
    pub fn with_version_of<K: Object>(mut self, object: &K) -> Self {
        if let Ok(Value::Object(body)) = &mut self.body {
            let metadata = body.entry("metadata").or_insert_with(|| json!({}));
            if let Value::Object(metadata) = metadata {
                metadata.insert("resourceVersion".to_owned(), json!(object.meta().resource_version));
            }
        }
        self
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.body, Ok(Value::Object(fields)) if fields.is_empty())
            || matches!(&self.body, Ok(Value::Array(operations)) if operations.is_empty())
    }
}

/// The merge patch that makes `new` of `old`; `None` if they are the same.
///
/// A merge patch cannot set a field to null or put one into a list, so a list that differs is given whole.
pub(super) fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let removed = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let set = new.iter().filter_map(|(key, new)| {
        let change = match old.get(key) {
            Some(old) => difference(old, new),
            None => Some(new.clone()),
        };
        Some((key.clone(), change?))
    });
    let patch: Map<String, Value> = removed.chain(set).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 7386, section 2.
    fn apply(target: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut target = target.as_object().cloned().unwrap_or_default();
        for (key, change) in patch {
            match change {
                Value::Null => drop(target.remove(key)),
                change => {
                    let changed = apply(target.get(key).unwrap_or(&Value::Null), change);
                    target.insert(key.clone(), changed);
                }
            }
        }
        Value::Object(target)
    }

    /// Objects as they are serialised: without nulls.
    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (0..3i32).prop_map(|n| json!(n)),
            "[ab]".prop_map(|text| json!(text)),
            prop::collection::vec(0..3i32, 0..3).prop_map(|list| json!(list)),
        ];
        let value = leaf.prop_recursive(3, 16, 3, |inner| {
            prop::collection::btree_map("[xyz]", inner, 0..3).prop_map(|fields| json!(fields))
        });
        prop::collection::btree_map("[xyz]", value, 0..4).prop_map(|fields| json!(fields))
    }

    proptest! {
        #[test]
        fn a_difference_makes_the_new_of_the_old(old in object(), new in object()) {
            match difference(&old, &new) {
                None => prop_assert_eq!(old, new),
                Some(patch) => prop_assert_eq!(apply(&old, &patch), new),
            }
        }
    }

    #[test]
    fn only_what_differs_is_said() {
        let old = json!({ "a": { "same": 1, "gone": 2 }, "list": [1, 2] });
        let new = json!({ "a": { "same": 1, "new": 3 }, "list": [1] });
        let expected = json!({ "a": { "gone": null, "new": 3 }, "list": [1] });
        assert_eq!(difference(&old, &new), Some(expected));
        assert!(Patch::between(&old, &old).is_empty());
    }
}
