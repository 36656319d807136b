//! Merge patch (RFC 7386): objects are merged, null removes a field, every other value replaces.
//!
//! As in the library of kube-apiserver, objects in a list of the patch lose their null fields too, unless the list replaces an object. Null
//! elements of lists stay.

use serde_json::Value;

/// Applies a merge patch in place.
pub fn merge(target: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *target, patch) else {
        // As in the library, only a list that replaces an object keeps the nulls inside it.
        let is_object = target.is_object();
        target.clone_from(patch);
        if !is_object {
            drop_nulls(target);
        }
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else if let Some(field) = fields.get_mut(name) {
            merge(field, change);
        } else {
            // Nulls in a new object have nothing to remove.
            let mut field = change.clone();
            drop_nulls(&mut field);
            fields.insert(name.clone(), field);
        }
    }
}

/// Removes the null fields of an object and of all objects below it. Null elements of lists stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
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

    #[test]
    fn nulls_inside_lists_are_dropped_unless_the_list_replaces_an_object() {
        let target = json!({"doc": {"x": 1}, "list": [1], "number": 1});
        let list = json!([{"a": null, "b": {"c": null}}, null, [{"d": null}]]);
        let dropped = json!([{"b": {}}, null, [{}]]);
        for (field, expected) in [("doc", &list), ("list", &dropped), ("number", &dropped), ("new", &dropped)]
        {
            let mut merged = target.clone();
            merge(&mut merged, &json!({field: list}));
            assert_eq!(&merged[field], expected, "{field}");
        }
    }

    /// Removes nulls inside lists, which count only when the list replaces an object.
    fn without_nulls_in_lists(value: &mut Value) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(without_nulls_in_lists),
            Value::Array(_) => drop_nulls(value),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(target in json_value(), mut patch in json_value()) {
            without_nulls_in_lists(&mut patch);
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
