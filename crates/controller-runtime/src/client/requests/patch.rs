//! Patches, written by hand or computed from two states of an object.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{client::transport::preconditions::Preconditions, object::Object};

/// A change of an object, in one of the API server's patch formats.
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
/// let difference = Patch::between(&old, &new); // a conflict if it has changed since
/// # drop((roses, test_first, difference));
/// ```
#[derive(Debug)]
pub struct Patch {
    pub(in crate::client) content_type: &'static str,
    /// The patch, or the reason why it cannot be sent.
    body: Result<Value, String>,
    preconditions: Preconditions,
}

impl Patch {
    /// A JSON merge patch (RFC 7386): sets the given fields, removes those given as `null`, and replaces lists.
    #[doc(alias = "MergePatchType")]
    pub fn merge(patch: &impl Serialize) -> Self {
        Self::new("application/merge-patch+json", patch)
    }

    /// A JSON patch (RFC 6902): a list of operations, `test` among them.
    #[doc(alias = "JSONPatchType")]
    pub fn json(operations: &impl Serialize) -> Self {
        Self::new("application/json-patch+json", operations)
    }

    /// A strategic merge patch: like [`Patch::merge`], but merges lists that have a merge key. For builtin kinds only.
    #[doc(alias = "StrategicMergePatchType")]
    pub fn strategic(patch: &impl Serialize) -> Self {
        Self::new("application/strategic-merge-patch+json", patch)
    }

    /// The merge patch that turns `old`, an object that was read, into `new`.
    ///
    /// UID and resourceVersion of `old`, if set, are preconditions: if the object has changed since, or has been
    /// replaced by another, the patch fails with a conflict. [`Patch::any_version`] removes the precondition on the
    /// version. UID and resourceVersion of `new` are ignored. Each write creates a new version, so two writes need two
    /// patches.
    #[doc(alias = "MergeFrom")]
    pub fn between<K: Serialize>(old: &K, new: &K) -> Self {
        let values = serde_json::to_value(old).and_then(|old| Ok((old, serde_json::to_value(new)?)));
        let made = values.map(|(mut old, mut new)| {
            let preconditions = Preconditions::take_from(&mut old);
            // UID and version of `new` would otherwise show up as changed fields.
            Preconditions::take_from(&mut new);
            (preconditions, difference(&old, &new).unwrap_or_else(|| json!({})))
        });
        let (preconditions, body) = match made {
            Ok((preconditions, difference)) => (preconditions, Ok(difference)),
            Err(error) => (Preconditions::default(), Err(error.to_string())),
        };
        Self { content_type: "application/merge-patch+json", body, preconditions }
    }

    /// Makes UID and resourceVersion of `object` preconditions: the patch fails with a conflict if the object has changed.
    /// Default: set by [`Patch::between`], not set for patches written by hand.
    #[doc(alias = "MergeFromWithOptimisticLock")]
    #[must_use]
    pub fn with_version_of<K: Object>(mut self, object: &K) -> Self {
        self.preconditions = Preconditions::of(object.meta());
        if self.preconditions.resource_version.is_none() {
            let reason =
                "metadata.resourceVersion of the object to be patched must be set: read the object first";
            self.body = Err(reason.to_owned());
        }
        self
    }

    /// Applies the patch even if the object has changed since it was read; its UID remains a precondition. Default: the version
    /// must match, if one is set.
    #[must_use]
    pub fn any_version(mut self) -> Self {
        self.preconditions.resource_version = None;
        self
    }

    /// Returns whether the patch changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.body, Ok(Value::Object(fields)) if fields.is_empty())
            || matches!(&self.body, Ok(Value::Array(operations)) if operations.is_empty())
    }

    fn new(content_type: &'static str, body: &impl Serialize) -> Self {
        let body = serde_json::to_value(body).map_err(|error| error.to_string());
        Self { content_type, body, preconditions: Preconditions::default() }
    }

    /// Returns the request body, or the reason why the patch cannot be sent.
    pub(in crate::client) fn into_body(self) -> Result<Value, String> {
        let mut body = self.body?;
        self.preconditions.add_to(&mut body);
        Ok(body)
    }
}

/// The merge patch from `old` to `new`; `None` if they are equal.
///
/// A merge patch cannot set a field to null or to a part of a list, so a list that differs is sent as a whole.
pub(in crate::client) fn difference(old: &Value, new: &Value) -> Option<Value> {
    // Lists and scalars are replaced as a whole; only objects are compared field by field.
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
    use k8s_openapi::api::core::v1::ConfigMap;
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

    /// Serialised objects, which contain no nulls.
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
    fn a_merge_patch_contains_only_differences() {
        let old = json!({ "a": { "same": 1, "gone": 2 }, "list": [1, 2] });
        let new = json!({ "a": { "same": 1, "new": 3 }, "list": [1] });
        let expected = json!({ "a": { "gone": null, "new": 3 }, "list": [1] });
        assert_eq!(difference(&old, &new), Some(expected));
        assert!(Patch::between(&old, &old).is_empty());
    }

    #[test]
    fn a_computed_patch_applies_only_to_its_object_and_version() {
        let old = json!({ "metadata": { "uid": "1", "resourceVersion": "5", "name": "a" } });
        let new = json!({ "metadata": { "uid": "2", "name": "a", "labels": { "x": "y" } }, "data": 1 });
        let patch = || Patch::between(&old, &new);
        let labels = json!({ "x": "y" });
        let expected =
            json!({ "metadata": { "uid": "1", "resourceVersion": "5", "labels": labels }, "data": 1 });
        assert_eq!(patch().into_body(), Ok(expected));
        let expected = json!({ "metadata": { "uid": "1", "labels": labels }, "data": 1 });
        assert_eq!(patch().any_version().into_body(), Ok(expected));

        let unread = json!({ "metadata": { "name": "a" } });
        let expected = json!({ "metadata": { "labels": labels }, "data": 1 });
        assert_eq!(Patch::between(&unread, &new).into_body(), Ok(expected), "there is nothing to hold it to");
        let later = json!({ "metadata": { "uid": "1", "resourceVersion": "6", "name": "a" } });
        assert!(Patch::between(&old, &later).is_empty(), "a version is nothing that a patch changes");
    }

    #[test]
    fn a_patch_written_by_hand_has_no_preconditions_by_default() {
        let mut map = ConfigMap::default();
        let roses = json!({ "data": { "theme": "roses" } });
        assert_eq!(Patch::merge(&roses).into_body(), Ok(roses.clone()));
        let unread = Patch::merge(&roses).with_version_of(&map).into_body().unwrap_err();
        assert!(unread.starts_with("metadata.resourceVersion of the object"), "{unread}");

        map.metadata.resource_version = Some("5".to_owned());
        let versioned = json!({ "data": { "theme": "roses" }, "metadata": { "resourceVersion": "5" } });
        assert_eq!(Patch::strategic(&roses).with_version_of(&map).into_body(), Ok(versioned));
        map.metadata.uid = Some("1".to_owned());
        let remove = json!({ "op": "remove", "path": "/data" });
        let operations = json!([
            { "op": "replace", "path": "/metadata/resourceVersion", "value": "5" },
            { "op": "replace", "path": "/metadata/uid", "value": "1" },
            remove,
        ]);
        assert_eq!(Patch::json(&json!([remove])).with_version_of(&map).into_body(), Ok(operations));
    }
}
