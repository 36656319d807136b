//! Merge patch (RFC 7386): objects are merged, null removes a field, every other value replaces.

use serde_json::{Map, Value};

/// Applies a merge patch in place.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else if let Some(field) = fields.get_mut(name) {
            merge(field, change);
        } else {
            // A new field is merged into null, so that nulls inside it are dropped.
            let mut field = Value::Null;
            merge(&mut field, change);
            fields.insert(name.clone(), field);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::json_value;

    #[track_caller]
    fn check(target: &Value, patch: &Value, expected: &Value) {
        let mut merged = target.clone();
        merge(&mut merged, patch);
        assert_eq!(&merged, expected, "{target} patched with {patch}");
    }

    #[test]
    fn examples_of_rfc_7386_hold() {
        check(&json!({"a": "b"}), &json!({"a": "c"}), &json!({"a": "c"}));
        check(&json!({"a": "b"}), &json!({"b": "c"}), &json!({"a": "b", "b": "c"}));
        check(&json!({"a": "b"}), &json!({"a": null}), &json!({}));
        check(&json!({"a": "b", "b": "c"}), &json!({"a": null}), &json!({"b": "c"}));
        check(&json!({"a": ["b"]}), &json!({"a": "c"}), &json!({"a": "c"}));
        check(&json!({"a": "c"}), &json!({"a": ["b"]}), &json!({"a": ["b"]}));
        check(&json!({"a": {"b": "c"}}), &json!({"a": {"b": "d", "c": null}}), &json!({"a": {"b": "d"}}));
        check(&json!({"a": [{"b": "c"}]}), &json!({"a": [1]}), &json!({"a": [1]}));
        check(&json!(["a", "b"]), &json!(["c", "d"]), &json!(["c", "d"]));
        check(&json!({"a": "b"}), &json!(["c"]), &json!(["c"]));
        check(&json!({"a": "foo"}), &json!(null), &json!(null));
        check(&json!({"a": "foo"}), &json!("bar"), &json!("bar"));
        check(&json!({"e": null}), &json!({"a": 1}), &json!({"a": 1, "e": null}));
        check(&json!([1, 2]), &json!({"a": "b", "c": null}), &json!({"a": "b"}));
        check(&json!({}), &json!({"a": {"bb": {"c": null}}}), &json!({"a": {"bb": {}}}));
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(target in json_value(), patch in json_value()) {
            let mut once = target;
            merge(&mut once, &patch);
            let mut twice = once.clone();
            merge(&mut twice, &patch);
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn an_empty_patch_changes_no_object(target in json_value()) {
            prop_assume!(target.is_object());
            let mut merged = target.clone();
            merge(&mut merged, &json!({}));
            prop_assert_eq!(merged, target);
        }
    }
}
