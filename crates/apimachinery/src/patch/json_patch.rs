//! JSON patch (RFC 6902) with kube-apiserver's deviations.

use serde_json::Value;

use super::operations::{MAX_OPERATIONS, OperationError, apply_all};
use super::rejected;
use crate::decode;
use crate::go;
use crate::status::ApiError;

/// Applies a JSON patch.
///
/// # Errors
/// - 400 if the body is not a list of operations.
/// - 413 if it has more than 10,000 operations, copies more than 3 MiB, or shifts too many list elements.
/// - 422 without a cause if an operation is unknown or malformed, its path is missing or a test fails; also if the result is nested more
///   than 128 levels deep.
pub fn json(target: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let patch =
        decode::json(patch).map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))?;
    let found = match patch.value {
        Value::Array(operations) => {
            check_types(&operations)?;
            return apply(target, operations);
        }
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

/// Checks the types of operations and of their texts, which kube-apiserver decodes before it applies the first one.
fn check_types(operations: &[Value]) -> Result<(), ApiError> {
    let refused = |found: &Value, into: &str| {
        let found = go::json_type(found);
        Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go {into}"
        )))
    };
    for operation in operations {
        if !operation.is_object() && !operation.is_null() {
            return refused(operation, "value of type handlers.jsonPatchOp");
        }
        for field in ["op", "path", "from"] {
            if let Some(value) = operation.get(field).filter(|value| !value.is_string() && !value.is_null()) {
                return refused(value, &format!("struct field jsonPatchOp.{field} of type string"));
            }
        }
    }
    Ok(())
}

fn apply(target: &Value, operations: Vec<Value>) -> Result<Value, ApiError> {
    if operations.len() > MAX_OPERATIONS {
        return Err(too_large(&format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    apply_all(target, operations).map_err(|error| match error {
        OperationError::Inapplicable(_) => rejected(),
        OperationError::TooLarge(why) => too_large(&why),
    })
}

fn too_large(why: &str) -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
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
            r#"[{"op":"test","path":"/spec/none/deep","value":null}]"#,
            "[null]",
        ] {
            assert_eq!(
                patched(patch).unwrap_err(),
                "422 the server rejected our request due to an error in our request",
                "{patch}"
            );
        }
    }

    #[test]
    fn an_absent_member_equals_null() {
        let spec = json!({"size": 1, "list": ["x"], "map": {"k/1": "v"}});
        check(r#"[{"op":"test","path":"/spec/none","value":null}]"#, &spec);
    }

    #[test]
    fn a_body_that_is_no_list_is_400() {
        for (patch, why) in [
            ("[1]", "number into Go value of type handlers.jsonPatchOp"),
            ("[[]]", "array into Go value of type handlers.jsonPatchOp"),
            (r#"[{"op":1}]"#, "number into Go struct field jsonPatchOp.op of type string"),
        ] {
            let expected = format!("400 error decoding patch: json: cannot unmarshal {why}");
            assert_eq!(patched(patch).unwrap_err(), expected);
        }
        assert_eq!(
            patched(r#"{"not":"a list"}"#).unwrap_err(),
            "400 error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(patched("[").unwrap_err(), "400 error decoding patch: unexpected end of JSON input");
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

    #[test]
    fn copies_are_limited_in_size_and_depth() {
        let doubling = vec![json!({"op": "copy", "from": "/spec", "path": "/spec/again"}); 5_000];
        let error = patched(&json!(doubling).to_string()).unwrap_err();
        assert!(error.starts_with("422 "), "{error}");
        let wide: Vec<Value> = (0..5_000)
            .map(|n| json!({"op": "copy", "from": "/spec", "path": format!("/spec/list/{n}")}))
            .collect();
        let error = patched(&json!(wide).to_string()).unwrap_err();
        assert!(
            error.starts_with(
                "413 Request entity too large: Unable to complete the copy, the accumulated size increase"
            ),
            "{error}"
        );
        let mut chain = vec![json!({"op": "add", "path": "/a", "value": {}})];
        chain.extend(
            (1..40).map(|n| json!({"op": "copy", "from": "/a", "path": "/a".repeat(1 << n.min(12))})),
        );
        assert!(patched(&json!(chain).to_string()).is_err());
    }

    #[test]
    fn only_replace_and_test_accept_the_whole_document() {
        let target = json!({"a": {"b": 1}});
        let applied = |operation: Value| apply(&target, vec![operation]).map_err(|error| error.code());
        let patched = applied(json!({"op": "replace", "path": "", "value": {"c": 2}}));
        assert_eq!(patched, Ok(json!({"c": 2})));
        assert_eq!(applied(json!({"op": "replace", "path": "", "value": []})), Ok(json!([])));
        assert_eq!(applied(json!({"op": "test", "path": "", "value": {"a": {"b": 1}}})), Ok(target.clone()));
        for operation in [
            json!({"op": "replace", "path": "", "value": 1}),
            json!({"op": "replace", "path": "", "value": null}),
            json!({"op": "add", "path": "", "value": {"c": 2}}),
            json!({"op": "remove", "path": ""}),
            json!({"op": "copy", "from": "", "path": "/c"}),
            json!({"op": "copy", "from": "/a", "path": ""}),
            json!({"op": "move", "from": "/a", "path": ""}),
        ] {
            assert_eq!(applied(operation.clone()), Err(422), "{operation}");
        }
    }

    #[test]
    fn paths_and_missing_members_are_those_of_the_library() {
        let target = json!({"a": {"list": [1, 2]}});
        for (operation, expected) in [
            (json!({"op": "remove", "path": "x/a"}), json!({})),
            (json!({"op": "replace", "path": "/a/list/-1", "value": 3}), json!({"a": {"list": [1, 3]}})),
            (json!({"op": "add", "path": "/a/list/-1", "value": 3}), json!({"a": {"list": [1, 2, 3]}})),
            (json!({"op": "copy", "from": "/none", "path": "/b"}), json!({"a": {"list": [1, 2]}, "b": null})),
            (json!({"op": "add", "path": "/b"}), json!({"a": {"list": [1, 2]}, "b": null})),
        ] {
            assert_eq!(apply(&target, vec![operation.clone()]).unwrap(), expected, "{operation}");
        }
    }

    #[test]
    fn patches_that_shift_too_many_list_elements_are_413() {
        let target = json!({"list": vec![0; 50_000]});
        let patch = |n: usize| vec![json!({"op": "add", "path": "/list/0", "value": 1}); n];
        let patched = apply(&target, patch(1_000)).unwrap();
        assert_eq!(patched["list"].as_array().unwrap().len(), 51_000);
        let error = apply(&target, patch(2_000)).unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (413, "Request entity too large: the operations of the patch move too many values")
        );
        let at_the_end = vec![json!({"op": "add", "path": "/list/-", "value": 1}); 10_000];
        assert!(apply(&target, at_the_end).is_ok());
    }
}
