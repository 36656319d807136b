//! Merge of a configuration into an object without ownership, as mutating admission policies do.

use serde_json::Value;

use super::merge_applied::merge;
use super::schema_check::{check, check_written};
use super::typed::{Fields, Shape, Ty};
use crate::schema::Schema;

/// Merges `configuration` into `object` and returns the result. No field gets or loses an owner.
///
/// # Errors
/// kube-apiserver's text if one of both does not fit the schema, or if the configuration sets a list or map that would replace the whole
/// list or map of the object.
pub fn merge_configuration(schema: &Schema, object: &Value, configuration: &Value) -> Result<Value, String> {
    let ty = Ty::Schema(schema.root());
    // As in a server-side apply, the configuration may not have elements with the same keys. A stored object may, so its check below
    // accepts them.
    if let Some(why) = check(ty, configuration) {
        return Err(format!("failed to convert patch object to typed object: {why}"));
    }
    let mut atomics = Vec::new();
    find_atomics(ty, configuration, &mut String::new(), &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    if let Some(why) = check_written(ty, object) {
        return Err(format!("failed to convert original object to typed object: {why}"));
    }
    let mut merged = object.clone();
    merge(ty, &mut merged, configuration).map_err(|why| format!("failed to merge patch: {why}"))?;
    // kube-apiserver converts the merged value to the Go type of a builtin kind.
    if !schema.is_custom() {
        schema.restore(&mut merged)?;
    }
    Ok(merged)
}

/// Finds lists and maps that an apply would replace. Entries of maps without declared fields are not searched.
fn find_atomics(ty: Ty<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    let shape = ty.shape(value);
    if matches!(shape, Shape::Atomic(_)) && (value.is_object() || value.is_array()) {
        found.push(path.clone());
    }
    match value {
        Value::Object(entries) => {
            let fields = Fields::of(ty);
            for (name, value) in entries {
                let Some(ty) = fields.field(name).filter(|_| fields.declares(name)) else { continue };
                path.push('.');
                path.push_str(name);
                find_atomics(ty, value, path, found);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let ty = match shape {
                Shape::List(elements) => elements.ty(),
                _ => ty.items(),
            };
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                find_atomics(ty, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema;

    fn check(configuration: &Value, expected: &Value) {
        let schema = schema::builtin("io.k8s.api.core.v1.Pod").unwrap();
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let merged = match merge_configuration(&schema, &object, configuration) {
            Ok(merged) => json!([merged["metadata"]["labels"], merged["spec"]["containers"]]),
            Err(why) => json!(why),
        };
        assert_eq!(merged, *expected, "{configuration}");
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn maps_and_lists_with_keys_are_merged() {
        check(
            &json!({"metadata": {"labels": {"c": "d"}}}),
            &json!([{"a": "b", "c": "d"}, [{"name": "c", "image": "i"}]]),
        );
        check(
            &json!({"spec": {"containers": [{"name": "x", "image": "y"}]}}),
            &json!([{"a": "b"}, [{"name": "c", "image": "i"}, {"name": "x", "image": "y"}]]),
        );
        check(
            &json!({"spec": {"containers": [{"name": "c", "image": "y"}]}}),
            &json!([{"a": "b"}, [{"name": "c", "image": "y"}]]),
        );
        check(&json!({}), &json!([{"a": "b"}, [{"name": "c", "image": "i"}]]));
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn values_of_another_type_and_atomic_values_are_refused() {
        for (configuration, why) in [
            (
                json!({"spec": {"nope": 5}}),
                "failed to convert patch object to typed object: .spec.nope: field not declared in schema",
            ),
            (
                json!({"spec": {"hostNetwork": "x"}}),
                "failed to convert patch object to typed object: .spec.hostNetwork: expected boolean, got &{x}",
            ),
            (
                json!({"spec": {"nodeSelector": {"a": "b"}}}),
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector",
            ),
            (
                json!({"spec": {"containers": [{"name": "c", "args": ["x"]}]}}),
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args",
            ),
            (
                json!({"spec": {"tolerations": [{"key": "a"}]}}),
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.tolerations",
            ),
        ] {
            check(&configuration, &json!(why));
        }
    }
}
