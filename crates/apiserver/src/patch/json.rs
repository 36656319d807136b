//! RFC 6902 as kube-apiserver has it.

use json_patch::PatchOperation;
use serde_json::Value;

use super::rejected;
use crate::schema::normalize_numbers;
use crate::status::ApiError;

/// Operations in one patch; each costs a walk of the object.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch.
///
/// # Errors
/// 400 if the body is not a list of operations, 413 if it has more than 10,000, 422 without a word about the cause
/// if an operation is unknown or malformed, its path is missing, or a test fails.
pub(crate) fn json(target: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let mut patch: Value = serde_json::from_slice(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    normalize_numbers(&mut patch);
    let found = match patch {
        Value::Array(operations) => return apply(target, operations),
        Value::Null => return Ok(target.clone()),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Object(_) => "object",
    };
    Err(ApiError::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
    )))
}

fn apply(target: &Value, operations: Vec<Value>) -> Result<Value, ApiError> {
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = target.clone();
    for operation in operations {
        let mut operation: PatchOperation = serde_json::from_value(operation).map_err(|_| rejected())?;
        if let PatchOperation::Replace(replace) = &operation
            && patched.pointer(replace.path.as_str()).is_none()
            && replace
                .path
                .parent()
                .is_some_and(|parent| patched.pointer(parent.as_str()).is_some_and(Value::is_object))
        {
            // The server's library lets `replace` create a missing member of an object, against the RFC.
            operation = PatchOperation::Add(json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            });
        }
        json_patch::patch(&mut patched, std::slice::from_ref(&operation)).map_err(|_| rejected())?;
    }
    Ok(patched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(patch: &str) -> Result<Value, String> {
        let target = json!({"spec": {"size": 1, "list": ["x"], "map": {"k/1": "v"}}});
        json(&target, patch.as_bytes()).map_err(|error| format!("{} {}", error.code(), error.message()))
    }

    #[track_caller]
    fn check(patch: &str, spec: &Value) {
        assert_eq!(patched(patch).unwrap()["spec"], *spec);
    }

    #[test]
    fn operations_apply_in_order() {
        check(
            r#"[{"op":"test","path":"/spec/size","value":1},{"op":"replace","path":"/spec/size","value":2},
                {"op":"add","path":"/spec/list/-","value":"y"},{"op":"add","path":"/spec/list/0","value":"w"},
                {"op":"replace","path":"/spec/map/k~11","value":"z"}]"#,
            &json!({"size": 2, "list": ["w", "x", "y"], "map": {"k/1": "z"}}),
        );
        check(
            r#"[{"op":"copy","from":"/spec/map","path":"/spec/map2"},{"op":"move","from":"/spec/size","path":"/spec/n"}]"#,
            &json!({"n": 1, "list": ["x"], "map": {"k/1": "v"}, "map2": {"k/1": "v"}}),
        );
        check("[]", &json!({"size": 1, "list": ["x"], "map": {"k/1": "v"}}));
    }

    #[test]
    fn replace_of_a_missing_member_adds_it() {
        check(
            r#"[{"op":"replace","path":"/spec/map/new","value":"n"}]"#,
            &json!({"size": 1, "list": ["x"], "map": {"k/1": "v", "new": "n"}}),
        );
    }

    #[test]
    fn an_operation_that_does_not_fit_is_422_without_a_cause() {
        for patch in [
            r#"[{"op":"test","path":"/spec/size","value":2}]"#,
            r#"[{"op":"remove","path":"/spec/none"}]"#,
            r#"[{"op":"add","path":"/spec/none/deep","value":1}]"#,
            r#"[{"op":"bogus","path":"/spec/size"}]"#,
            r#"[{"path":"/spec/size"}]"#,
            "[1]",
        ] {
            assert_eq!(
                patched(patch).unwrap_err(),
                "422 the server rejected our request due to an error in our request",
                "{patch}"
            );
        }
    }

    #[test]
    fn a_body_that_is_no_list_is_400() {
        assert_eq!(
            patched(r#"{"not":"a list"}"#).unwrap_err(),
            "400 error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert!(
            patched("[")
                .unwrap_err()
                .starts_with("400 error decoding patch: ")
        );
    }

    #[test]
    fn too_many_operations_are_413() {
        let patch = serde_json::to_vec(&vec![json!({"op": "remove", "path": "/a"}); 10_001]).unwrap();
        let error = json(&json!({}), &patch).unwrap_err();
        assert_eq!(
            error.message(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        assert_eq!(error.code(), 413);
    }
}
