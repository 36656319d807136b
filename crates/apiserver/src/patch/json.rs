//! RFC 6902 as kube-apiserver has it.

use json_patch::PatchOperation;
use serde_json::Value;

use super::rejected;
use crate::request::body;
use crate::status::ApiError;

/// Operations in one patch; each costs a walk of the object.
const MAX_OPERATIONS: usize = 10_000;

/// Bytes that the `copy` operations of one patch may add: they could double an object again and again.
const MAX_COPIED: usize = 3 << 20;

/// Nesting that operations may build, as much as the JSON parser takes in a body: what reads objects recurses.
const MAX_DEPTH: usize = 128;

/// Applies a JSON patch.
///
/// # Errors
/// 400 if the body is not a list of operations, 413 if it has more than 10,000 or copies more than 3 MiB, 422 without a
/// word about the cause if an operation is unknown or malformed, its path is missing, a test fails, or the result would
/// be nested more than 128 levels deep.
pub(crate) fn json(target: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let patch =
        body::json(patch).map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))?;
    let found = match patch.value {
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
        return Err(too_large(&format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = target.clone();
    let mut bound = DepthBound(depth(target));
    let mut copied = 0;
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
        bound.admit(&operation, &patched)?;
        if let PatchOperation::Copy(copy) = &operation
            && let Some(source) = patched.pointer(copy.from.as_str())
        {
            copied += source.to_string().len();
            if copied > MAX_COPIED {
                return Err(too_large(&format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                     {MAX_COPIED}"
                )));
            }
        }
        json_patch::patch(&mut patched, std::slice::from_ref(&operation)).map_err(|_| rejected())?;
    }
    Ok(patched)
}

/// How deep an object can be nested at most, without looking at all of it after each operation.
struct DepthBound(usize);

impl DepthBound {
    /// Takes note of an operation, or refuses it because it would nest too deep.
    fn admit(&mut self, operation: &PatchOperation, patched: &Value) -> Result<(), ApiError> {
        let (path, from, added) = match operation {
            PatchOperation::Add(add) => (&add.path, None, depth(&add.value)),
            PatchOperation::Replace(replace) => (&replace.path, None, depth(&replace.value)),
            PatchOperation::Copy(copy) => (&copy.path, Some(&copy.from), self.0),
            PatchOperation::Move(r#move) => (&r#move.path, Some(&r#move.from), self.0),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
        };
        let above = path.as_str().matches('/').count();
        let mut reached = above + added;
        if reached > MAX_DEPTH {
            let source = from.and_then(|from| patched.pointer(from.as_str()));
            reached = above + source.map_or(added, depth);
            self.0 = depth(patched);
        }
        if reached > MAX_DEPTH {
            return Err(rejected());
        }
        self.0 = self.0.max(reached);
        Ok(())
    }
}

/// Levels of nesting; a scalar has none.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
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
    fn copies_can_neither_grow_nor_nest_without_bound() {
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
}
