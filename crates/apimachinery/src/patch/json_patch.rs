//! JSON patch (RFC 6902) with kube-apiserver's deviations.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

use super::rejected;
use crate::decode;
use crate::go;
use crate::status::ApiError;

/// Maximum number of operations in a patch; each costs a traversal of the object.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum total size of the values that the `copy` operations of a patch add, in bytes. Without a limit, each copy could double the
/// object.
const MAX_COPIED: usize = 3 << 20;

/// Maximum nesting that operations may create, equal to the JSON parser's limit for bodies: code that handles objects recurses.
const MAX_DEPTH: usize = 128;

/// Maximum number of traversals of the object to determine its depth, per patch.
const MAX_WALKS: usize = 32;

/// Maximum number of list elements that a patch may shift, enough for 10,000 insertions at the front of a list of 6,000.
const MAX_SHIFTED: usize = 60_000_000;

/// Applies a JSON patch.
///
/// # Errors
/// - 400 if the body is not a list of operations.
/// - 413 if it has more than 10,000 operations, copies more than 3 MiB, or shifts too many list elements.
/// - 422 without a cause if an operation is unknown or malformed, its path is missing or a test fails; also if the result is nested more
///   than 128 levels deep, or if it might be and [`MAX_WALKS`] traversals were needed before.
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
    let mut patched = target.clone();
    let mut bound = DepthBound { deepest: depth(target), walks: 0 };
    let (mut copied, mut shifted) = (0, 0);
    for operation in operations {
        let mut operation: PatchOperation = serde_json::from_value(operation).map_err(|_| rejected())?;
        if let PatchOperation::Replace(replace) = &operation
            && patched.pointer(replace.path.as_str()).is_none()
            && replace
                .path
                .parent()
                .is_some_and(|parent| patched.pointer(parent.as_str()).is_some_and(Value::is_object))
        {
            // kube-apiserver's library lets `replace` create a missing member of an object, against the RFC.
            operation = PatchOperation::Add(json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            });
        }
        if let PatchOperation::Test(test) = &operation
            && test.value.is_null()
            && is_absent(&patched, &test.path)
        {
            // An absent member of an object equals null.
            continue;
        }
        bound.admit(&operation, &patched)?;
        shifted += shifts(&operation, &patched);
        if shifted > MAX_SHIFTED {
            return Err(too_large("The operations move too many elements of lists"));
        }
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

/// Whether an object lacks the member that a path names.
fn is_absent(patched: &Value, path: &Pointer) -> bool {
    let holder = path.parent().and_then(|parent| patched.pointer(parent.as_str()));
    holder.is_some_and(Value::is_object) && patched.pointer(path.as_str()).is_none()
}

/// Upper bound of an object's depth, which makes most traversals unnecessary.
struct DepthBound {
    deepest: usize,
    /// Number of traversals so far.
    walks: usize,
}

impl DepthBound {
    /// Updates the bound for an operation, or refuses the operation because it would nest too deep.
    fn admit(&mut self, operation: &PatchOperation, patched: &Value) -> Result<(), ApiError> {
        let levels = |path: &Pointer| path.as_str().matches('/').count();
        // The depth of a subtree is at most that of the object minus the length of its path.
        let below = |from: &Pointer| self.deepest.saturating_sub(levels(from));
        let (path, from, added) = match operation {
            PatchOperation::Add(add) => (&add.path, None, depth(&add.value)),
            PatchOperation::Replace(replace) => (&replace.path, None, depth(&replace.value)),
            PatchOperation::Copy(copy) => (&copy.path, Some(&copy.from), below(&copy.from)),
            PatchOperation::Move(r#move) => (&r#move.path, Some(&r#move.from), below(&r#move.from)),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
        };
        let above = levels(path);
        let mut reached = above + added;
        if reached > MAX_DEPTH
            && let Some(from) = from
            && self.walks < MAX_WALKS
        {
            self.walks += 1;
            reached = above + patched.pointer(from.as_str()).map_or(added, depth);
            self.deepest = depth(patched);
        }
        if reached > MAX_DEPTH {
            return Err(rejected());
        }
        self.deepest = self.deepest.max(reached);
        Ok(())
    }
}

/// Returns the number of list elements that an operation shifts.
fn shifts(operation: &PatchOperation, patched: &Value) -> usize {
    let after = |path: &Pointer| {
        let list =
            path.parent().and_then(|parent| patched.pointer(parent.as_str())).and_then(Value::as_array);
        let place = path.back().and_then(|last| last.decoded().parse::<usize>().ok());
        list.zip(place).map_or(0, |(list, place)| list.len().saturating_sub(place))
    };
    match operation {
        PatchOperation::Add(add) => after(&add.path),
        PatchOperation::Remove(remove) => after(&remove.path),
        PatchOperation::Copy(copy) => after(&copy.path),
        PatchOperation::Move(r#move) => after(&r#move.from) + after(&r#move.path),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// Returns the levels of nesting; a scalar has none.
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
    fn a_deep_object_is_traversed_a_limited_number_of_times() {
        let mut target = json!({"x": 1});
        for _ in 0..120 {
            target = json!({"d": target});
        }
        let deep_move = |n: usize| {
            let (from, to) = if n.is_multiple_of(2) { ("/d", "/e") } else { ("/e", "/d") };
            json!({"op": "move", "from": from, "path": to})
        };
        // Moves on one level create no depth, and need no traversal.
        let operations: Vec<Value> = (0..10_000).map(deep_move).collect();
        let mut bound = DepthBound { deepest: depth(&target), walks: 0 };
        for operation in &operations {
            let operation: PatchOperation = serde_json::from_value(operation.clone()).unwrap();
            bound.admit(&operation, &target).unwrap();
        }
        assert_eq!(bound.walks, 0);
        assert!(apply(&target, operations).is_ok());
        // An operation that might nest too deep may cause a traversal, but not each does.
        let copy = json!({"op": "copy", "from": "/d", "path": "/a/b/c/d/e/f/g/h/i/j"});
        let copy: PatchOperation = serde_json::from_value(copy).unwrap();
        let small = json!({"d": 1});
        let mut bound = DepthBound { deepest: MAX_DEPTH, walks: 0 };
        for _ in 0..100 {
            let _ = bound.admit(&copy, &target);
            bound.deepest = MAX_DEPTH;
        }
        assert_eq!(bound.walks, MAX_WALKS);
        let mut bound = DepthBound { deepest: MAX_DEPTH, walks: 0 };
        assert!(bound.admit(&copy, &small).is_ok(), "it only seemed so");
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
            (413, "Request entity too large: The operations move too many elements of lists")
        );
        let at_the_end = vec![json!({"op": "add", "path": "/list/-", "value": 1}); 10_000];
        assert!(apply(&target, at_the_end).is_ok());
    }
}
