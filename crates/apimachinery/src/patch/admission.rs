//! JSON patches of admission webhooks, with the errors and deviations of the Go library that kube-apiserver applies them with.
//!
//! Unlike the patches of clients, a failed operation is reported with its reason.

use serde_json::Value;

use super::operations::{MAX_OPERATIONS, OperationError, apply_all};
use crate::decode;
use crate::go::json_type;

/// Reason why a patch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionPatchError {
    /// The text is not a list of operations.
    Undecodable(String),
    /// An operation cannot be applied.
    Inapplicable(String),
}

impl AdmissionPatchError {
    /// Whether a `test` operation of the patch failed.
    #[must_use]
    pub fn is_failed_test(&self) -> bool {
        // No other message begins with this word.
        matches!(self, Self::Inapplicable(why) if why.starts_with("testing ") && why.ends_with(": test failed"))
    }
}

/// Applies the patch of a webhook, or of a mutating admission policy. Returns `None` if the patch has no operations.
///
/// # Errors
/// Go's text for a patch that is malformed or cannot be applied. Also refused are patches with more than 10,000 operations, with too much
/// work, and with results that are nested more than 128 levels deep.
pub fn admission(target: &Value, patch: &[u8]) -> Result<Option<Value>, AdmissionPatchError> {
    let patch = decode::json(patch).map_err(AdmissionPatchError::Undecodable)?.value;
    let wrong_type = |value: &Value, of: &str| {
        let found = json_type(value);
        AdmissionPatchError::Undecodable(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.{of}"
        ))
    };
    let operations = match patch {
        Value::Array(operations) => operations,
        // Go decodes null as a patch without operations.
        Value::Null => Vec::new(),
        other => return Err(wrong_type(&other, "Patch")),
    };
    if let Some(other) = operations.iter().find(|operation| !operation.is_object() && !operation.is_null()) {
        return Err(wrong_type(other, "Operation"));
    }
    // The caller keeps the object as it is, so that no copy has to be compared.
    if operations.is_empty() {
        return Ok(None);
    }
    if operations.len() > MAX_OPERATIONS {
        let why =
            format!("the patch has {} operations, more than the {MAX_OPERATIONS} allowed", operations.len());
        return Err(AdmissionPatchError::Inapplicable(why));
    }
    match apply_all(target, operations) {
        Ok(patched) => Ok(Some(patched)),
        Err(OperationError::Inapplicable(why) | OperationError::TooLarge(why)) => {
            Err(AdmissionPatchError::Inapplicable(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(patch: &Value, expected: &Value) {
        let target = json!({"a": {"b": [1, 2]}, "c": "d"});
        let patched = match admission(&target, patch.to_string().as_bytes()) {
            Ok(Some(patched)) => patched,
            Ok(None) => json!("nothing"),
            Err(AdmissionPatchError::Undecodable(why)) => json!(format!("undecodable: {why}")),
            Err(AdmissionPatchError::Inapplicable(why)) => json!(why),
        };
        assert_eq!(&patched, expected, "{patch}");
    }

    #[test]
    fn operations_change_the_object() {
        check(&json!([]), &json!("nothing"));
        check(&Value::Null, &json!("nothing"));
        for (operation, expected) in [
            (json!({"op": "add", "path": "/a/b/-", "value": 3}), json!({"a": {"b": [1, 2, 3]}, "c": "d"})),
            (json!({"op": "add", "path": "/a/b/0", "value": 0}), json!({"a": {"b": [0, 1, 2]}, "c": "d"})),
            (json!({"op": "add", "path": "/a/b/-1", "value": 3}), json!({"a": {"b": [1, 2, 3]}, "c": "d"})),
            (
                json!({"op": "add", "path": "/e~1f", "value": 0}),
                json!({"a": {"b": [1, 2]}, "c": "d", "e/f": 0}),
            ),
            (
                json!({"op": "replace", "path": "/new", "value": 0}),
                json!({"a": {"b": [1, 2]}, "c": "d", "new": 0}),
            ),
            (json!({"op": "replace", "path": "/a/b/-2", "value": 0}), json!({"a": {"b": [0, 2]}, "c": "d"})),
            (json!({"op": "replace", "path": "", "value": {"x": 1}}), json!({"x": 1})),
            (json!({"op": "remove", "path": "/a/b/1"}), json!({"a": {"b": [1]}, "c": "d"})),
            (json!({"op": "move", "from": "/c", "path": "/a/c"}), json!({"a": {"b": [1, 2], "c": "d"}})),
            (
                json!({"op": "copy", "from": "/c", "path": "/a/c"}),
                json!({"a": {"b": [1, 2], "c": "d"}, "c": "d"}),
            ),
            (json!({"op": "test", "path": "/none", "value": null}), json!({"a": {"b": [1, 2]}, "c": "d"})),
        ] {
            check(&json!([operation]), &expected);
        }
    }

    #[test]
    fn a_failed_operation_is_reported_as_in_go() {
        for (operation, why) in [
            (
                json!({"op": "remove", "path": "/nope"}),
                "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
            ),
            (json!({"op": "jump", "path": "/c"}), "Unexpected kind: jump"),
            (json!({"path": "/c"}), "Unexpected kind: unknown"),
            (
                json!({"op": "add", "path": "no-slash", "value": "x"}),
                "add operation does not apply: doc is missing path: \"no-slash\": missing value",
            ),
            (json!({"op": "add", "value": "x"}), "add operation failed to decode path: missing value"),
            (
                json!({"op": "replace", "value": "x"}),
                "replace operation failed to decode path: operation missing path field: missing value",
            ),
            (
                json!({"op": "add", "path": "/c/d", "value": "x"}),
                "add operation does not apply: doc is missing path: \"/c/d\": missing value",
            ),
            (json!({"op": "test", "path": "/c", "value": "x"}), "testing value /c failed: test failed"),
            (
                json!({"op": "replace", "path": "/a/b/7", "value": "x"}),
                "replace operation does not apply: doc is missing key: /a/b/7: missing value",
            ),
            (
                json!({"op": "add", "path": "/a/b/7", "value": "x"}),
                "error in add for path: '/a/b/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!({"op": "remove", "path": "/a/b/x"}),
                "error in remove for path: '/a/b/x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op": "move", "from": "/x/y", "path": "/c"}),
                "move operation does not apply: doc is missing from path: /x/y: missing value",
            ),
        ] {
            check(&json!([operation]), &json!(why));
        }
        check(
            &json!({"op": "add"}),
            &json!("undecodable: json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        );
        check(
            &json!([5]),
            &json!("undecodable: json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        );
    }

    #[test]
    fn a_hostile_patch_is_refused_before_it_costs_much() {
        let target = json!({"a": vec![0; 50_000]});
        let refused =
            |operations: Vec<Value>| match admission(&target, json!(operations).to_string().as_bytes()) {
                Err(AdmissionPatchError::Inapplicable(why)) => why,
                other => panic!("{other:?}"),
            };
        let insert = json!({"op": "add", "path": "/a/0", "value": 1});
        assert_eq!(refused(vec![insert.clone(); 5_000]), "the operations of the patch move too many values");
        assert!(refused(vec![insert; 10_001]).contains("10001 operations"));
        let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
        assert!(refused(vec![copy; 100]).starts_with("Unable to complete the copy"));
        let mut deep = json!(1);
        (0..100).for_each(|_| deep = json!({"d": deep}));
        let nest = [
            json!({"op": "add", "path": "/b", "value": deep}),
            json!({"op": "copy", "from": "/b", "path": format!("/b{}", "/d".repeat(100))}),
        ];
        assert_eq!(refused(nest.to_vec()), "the object would be nested more than 128 levels deep");
    }
}
