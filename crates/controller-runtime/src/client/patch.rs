use serde::Serialize;
use serde_json::{Map, Value, json};

use super::preconditions::Preconditions;
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
/// let difference = Patch::between(&old, &new); // a conflict if it has changed since
/// # drop((roses, test_first, difference));
/// ```
#[derive(Debug)]
pub struct Patch {
    pub(super) content_type: &'static str,
    /// Or why there is none.
    body: Result<Value, String>,
    preconditions: Preconditions,
}

impl Patch {
    /// A JSON merge patch (RFC 7386): fields given are set, those given as `null` removed, lists replaced.
    #[doc(alias = "MergePatchType")]
    pub fn merge(patch: &impl Serialize) -> Self {
        Self::new("application/merge-patch+json", patch)
    }

    /// A JSON patch (RFC 6902): a list of operations, `test` among them.
    #[doc(alias = "JSONPatchType")]
    pub fn json(operations: &impl Serialize) -> Self {
        Self::new("application/json-patch+json", operations)
    }

    /// A strategic merge patch: as [`Patch::merge`], but lists with a merge key are merged. For builtin kinds only.
    #[doc(alias = "StrategicMergePatchType")]
    pub fn strategic(patch: &impl Serialize) -> Self {
        Self::new("application/strategic-merge-patch+json", patch)
    }

    /// The merge patch that makes `new` of `old`, which was read.
    ///
    /// Uid and version of `old` are preconditions, as far as it has them: if the object has changed since, or is another one,
    /// the patch fails with a conflict. [`Patch::any_version`] lifts that of the version. What `new` says of them counts for
    /// nothing. Each write makes a new version, so two of them need a patch each.
    #[doc(alias = "MergeFrom")]
    pub fn between<K: Serialize>(old: &K, new: &K) -> Self {
        let values = serde_json::to_value(old).and_then(|old| Ok((old, serde_json::to_value(new)?)));
        let made = values.map(|(mut old, mut new)| {
            let preconditions = Preconditions::take_from(&mut old);
            Preconditions::take_from(&mut new);
            (preconditions, difference(&old, &new).unwrap_or_else(|| json!({})))
        });
        let (preconditions, body) = match made {
            Ok((preconditions, difference)) => (preconditions, Ok(difference)),
            Err(error) => (Preconditions::default(), Err(error.to_string())),
        };
        Self { content_type: "application/merge-patch+json", body, preconditions }
    }

    /// Fails with a conflict if the object is no longer the one, in the version, that `object` is. Default: so for
    /// [`Patch::between`], and not for patches that were written by hand.
    #[doc(alias = "MergeFromWithOptimisticLock")]
    #[must_use]
    pub fn with_version_of<K: Object>(mut self, object: &K) -> Self {
        self.preconditions = Preconditions::of(object.meta());
        if self.preconditions.resource_version.is_none() {
            let reason = "metadata.resourceVersion of the object that the patch is for must be set: read it";
            self.body = Err(reason.to_owned());
        }
        self
    }

    /// Changes the object even if it has changed since it was read; its uid still counts. Default: not so.
    #[must_use]
    pub fn any_version(mut self) -> Self {
        self.preconditions.resource_version = None;
        self
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.body, Ok(Value::Object(fields)) if fields.is_empty())
            || matches!(&self.body, Ok(Value::Array(operations)) if operations.is_empty())
    }

    fn new(content_type: &'static str, body: &impl Serialize) -> Self {
        let body = serde_json::to_value(body).map_err(|error| error.to_string());
        Self { content_type, body, preconditions: Preconditions::default() }
    }

    /// What is sent, or why nothing can be.
    pub(super) fn into_body(self) -> Result<Value, String> {
        let mut body = self.body?;
        self.preconditions.add_to(&mut body);
        Ok(body)
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

    #[test]
    fn a_difference_is_for_the_object_and_the_version_that_it_was_made_from() {
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
    fn a_patch_by_hand_says_what_it_is_for_only_if_told_to() {
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
