//! JSON patch (RFC 6902) with kube-apiserver's deviations.

use serde_json::Value;

use super::operations::{MAX_OPERATIONS, OperationError, apply_all};
use super::rejected;
use crate::decode;
use crate::go;
use crate::status::ApiError;

/// Form in which kube-apiserver decodes the operations of a JSON patch before it applies them. It decides the errors about the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationForm {
    /// Go structs. Their unknown and duplicate fields are reported: `fieldValidation=Warn` and `Strict`.
    Typed,
    /// Maps. Their fields are not checked: `fieldValidation=Ignore`.
    Untyped,
}

/// Applies a JSON patch.
///
/// # Errors
/// - 400 if the body is not a list of operations.
/// - 413 if it has more than 10,000 operations, copies more than 3 MiB, or shifts too many list elements.
/// - 422 without a cause if an operation is unknown or malformed, its path is missing or a test fails; also if the result is nested more
///   than 128 levels deep.
pub fn json(target: &Value, patch: &[u8], form: OperationForm) -> Result<Value, ApiError> {
    let patch = decode::json(patch).map_err(|why| undecodable(form, &why))?;
    match patch.value {
        Value::Array(operations) => {
            check_types(&operations, form)?;
            apply(target, operations)
        }
        // Go decodes null as an empty list of operations.
        Value::Null => Ok(target.clone()),
        other => {
            let list = match form {
                OperationForm::Typed => "[]handlers.jsonPatchOp",
                OperationForm::Untyped => "jsonpatch.Patch",
            };
            Err(mistyped(form, &other, &format!("value of type {list}")))
        }
    }
}

/// Returns the errors of strict decoding of a JSON patch, in the order of the document: unknown and duplicate fields of its operations.
#[must_use]
pub fn json_complaints(patch: &[u8]) -> Vec<String> {
    let Ok(decoded) = decode::json(patch) else {
        return Vec::new();
    };
    // `json` refuses a body that is not a list. Such a body has no operations to report on.
    let operations = decoded.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let fields = operations.iter().enumerate().flat_map(|(index, operation)| {
        let fields = operation.as_object().into_iter().flatten();
        fields.map(move |(name, _)| (index, name))
    });
    let unknown = fields
        .filter(|(_, name)| !["op", "path", "from", "value"].contains(&name.as_str()))
        .map(|(index, name)| format!("[{index}].{name}"))
        .collect();
    let complaints = decode::complaints(patch, decoded.strict, unknown);
    complaints.into_iter().map(|complaint| format!("json patch {complaint}")).collect()
}

/// Builds the 400 for a body that cannot be decoded.
fn undecodable(form: OperationForm, why: &str) -> ApiError {
    let context = match form {
        OperationForm::Typed => "error decoding patch: ",
        OperationForm::Untyped => "",
    };
    ApiError::bad_request(format!("{context}{why}"))
}

/// Builds the 400 for a value of another type than Go's, which `into` names.
fn mistyped(form: OperationForm, found: &Value, into: &str) -> ApiError {
    let found = go::json_type(found);
    undecodable(form, &format!("json: cannot unmarshal {found} into Go {into}"))
}

/// Checks the types of operations, and of their texts in the typed form, which kube-apiserver decodes before it applies the first one.
fn check_types(operations: &[Value], form: OperationForm) -> Result<(), ApiError> {
    let (of_operation, texts): (_, &[&str]) = match form {
        OperationForm::Typed => ("handlers.jsonPatchOp", &["op", "path", "from"]),
        OperationForm::Untyped => ("jsonpatch.Operation", &[]),
    };
    for operation in operations {
        if !operation.is_object() && !operation.is_null() {
            return Err(mistyped(form, operation, &format!("value of type {of_operation}")));
        }
        for field in texts {
            if let Some(value) = operation.get(field).filter(|value| !value.is_string() && !value.is_null()) {
                let into = format!("struct field jsonPatchOp.{field} of type string");
                return Err(mistyped(form, value, &into));
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
        // kube-apiserver does not show the library's message to clients.
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
        json(&target, patch.as_bytes(), OperationForm::Typed)
            .map_err(|error| format!("{} {}", error.code(), error.message()))
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
    fn a_body_that_is_not_a_list_is_400() {
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
    fn untyped_operations_have_the_errors_of_the_library() {
        let patched = |patch: &str| {
            let patched = json(&json!({}), patch.as_bytes(), OperationForm::Untyped);
            patched.map_err(|error| format!("{} {}", error.code(), error.message()))
        };
        for (patch, error) in [
            ("[", "400 unexpected end of JSON input"),
            ("{}", "400 json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
            ("[1]", "400 json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
            (r#"[{"op":1}]"#, "422 the server rejected our request due to an error in our request"),
            ("[null]", "422 the server rejected our request due to an error in our request"),
        ] {
            assert_eq!(patched(patch).unwrap_err(), error, "{patch}");
        }
    }

    #[test]
    fn unknown_and_duplicate_fields_of_operations_are_complaints() {
        let patch = br#"[{"op":"add","kind":"X","path":"/a","value":{"b":1,"b":2}},{"path":"/a","Op":"x","path":"/b"}]"#;
        assert_eq!(
            json_complaints(patch),
            [
                r#"json patch unknown field "[0].kind""#,
                r#"json patch duplicate field "[0].value.b""#,
                r#"json patch unknown field "[1].Op""#,
                r#"json patch duplicate field "[1].path""#,
            ]
        );
        assert!(json_complaints(br#"[{"op":"test","path":"/a","value":{"from":1}}]"#).is_empty());
        assert!(json_complaints(b"[").is_empty());
    }

    #[test]
    fn too_many_operations_are_413() {
        let patch = serde_json::to_vec(&vec![json!({"op": "remove", "path": "/a"}); 10_001]).unwrap();
        let error = json(&json!({}), &patch, OperationForm::Typed).unwrap_err();
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
