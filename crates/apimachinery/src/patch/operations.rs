//! Operations of JSON patches, with the errors and deviations of the Go library that kube-apiserver applies them with.
//!
//! Deviations from RFC 6902: `replace` creates a missing member of an object, a missing member equals null for `test` and `copy`, indices
//! may be negative, the part of a path before the first slash is ignored, and only `replace` and `test` accept the path of the whole
//! document.

use serde_json::{Map, Value};

use crate::go::json_type;

/// Maximum number of operations in a patch.
pub(super) const MAX_OPERATIONS: usize = 10_000;
/// Maximum total size of the values that the `copy` operations of a patch add, in bytes.
const MAX_COPIED: usize = 3 << 20;
/// Maximum nesting that operations may create, equal to the JSON parser's limit.
const MAX_DEPTH: usize = 128;
/// Maximum number of values that the operations of a patch may visit. They visit the list elements that they shift, and the values whose
/// depth they determine.
const MAX_VISITED: usize = 60_000_000;

/// Reason why an operation is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OperationError {
    /// The operation does not fit the document; Go's message.
    Inapplicable(String),
    /// The operations of the patch copy or move too much.
    TooLarge(String),
}

impl From<String> for OperationError {
    fn from(why: String) -> Self {
        Self::Inapplicable(why)
    }
}

/// Applies operations, which are objects, one after the other.
pub(super) fn apply_all(target: &Value, operations: Vec<Value>) -> Result<Value, OperationError> {
    let mut patcher = Patcher { document: target.clone(), copied: 0, visited: 0 };
    for operation in operations {
        // Only null is left besides objects: the decoding refused other types. Go decodes null as an operation without fields.
        let operation = match operation {
            Value::Object(operation) => operation,
            _ => Map::new(),
        };
        patcher.apply(SentOperation::new(operation))?;
    }
    Ok(patcher.document)
}

/// Application of the operations of a patch.
struct Patcher {
    document: Value,
    /// Total size of the values that were copied, in bytes.
    copied: usize,
    /// Number of values that were visited.
    visited: usize,
}

const MISSING: &str = "missing value";
const TEST_FAILED: &str = "test failed";

/// An operation as it was sent.
struct SentOperation {
    kind: String,
    fields: Map<String, Value>,
}

impl SentOperation {
    fn new(fields: Map<String, Value>) -> Self {
        // The library names an operation without a kind `unknown`, and fails when it runs.
        let kind = fields.get("op").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        Self { kind, fields }
    }

    /// Returns the text of a field.
    ///
    /// # Errors
    /// Go's message for a field that is absent or not a text.
    fn text(&self, field: &str) -> Result<String, String> {
        let why = match self.fields.get(field) {
            Some(Value::String(text)) => return Ok(text.clone()),
            // The library puts a comma into the message of every field but `path`.
            Some(Value::Null) | None if field == "path" => format!("operation missing path field: {MISSING}"),
            Some(Value::Null) | None => format!("operation, missing {field} field: {MISSING}"),
            Some(other) => {
                format!("json: cannot unmarshal {} into Go value of type string", json_type(other))
            }
        };
        Err(self.undecoded(field, &why))
    }

    /// Like [`text`](Self::text) for `path`, but the library reports any wrong path of `add`, `remove` and `copy` as missing.
    fn path_or_missing(&self) -> Result<String, String> {
        self.text("path").map_err(|_| self.undecoded("path", MISSING))
    }

    fn undecoded(&self, field: &str, why: &str) -> String {
        format!("{} operation failed to decode {field}: {why}", self.kind)
    }

    /// Takes the value, if there is one.
    fn take_value(&mut self) -> Option<Value> {
        self.fields.remove("value")
    }
}

impl Patcher {
    fn apply(&mut self, mut operation: SentOperation) -> Result<(), OperationError> {
        match operation.kind.as_str() {
            "add" => {
                let path = operation.path_or_missing()?;
                // The library adds a missing value as null.
                self.add(&path, operation.take_value())
            }
            "remove" => self.remove(&operation.path_or_missing()?),
            "replace" => {
                let path = operation.text("path")?;
                let value = operation.take_value();
                self.admit(&path, value.as_ref())?;
                Ok(self.replace(&path, value.unwrap_or_default())?)
            }
            "test" => {
                let path = operation.text("path")?;
                Ok(self.test(&path, &operation.take_value().unwrap_or_default())?)
            }
            "move" => self.move_value(&operation),
            "copy" => self.copy(&operation),
            other => Err(format!("Unexpected kind: {other}").into()),
        }
    }

    fn add(&mut self, path: &str, value: Option<Value>) -> Result<(), OperationError> {
        self.admit(path, value.as_ref())?;
        let (parent, key) = self.find(path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        add(parent, &key, value.unwrap_or_default())
            .map_err(|why| format!("error in add for path: '{path}': {why}"))?;
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), OperationError> {
        self.shift(path)?;
        let (parent, key) = self.find(path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        remove(parent, &key).map_err(|why| format!("error in remove for path: '{path}': {why}"))?;
        Ok(())
    }

    fn move_value(&mut self, operation: &SentOperation) -> Result<(), OperationError> {
        let from = operation.text("from")?;
        self.shift(&from)?;
        let (parent, key) = self.find(&from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let failed = |why: String| format!("error in move for path: '{key}': {why}");
        get(parent, &key).map_err(failed)?;
        let value = remove(parent, &key).map_err(failed)?;
        // As in the library, the path of the destination is only read after the value was removed.
        let path = operation.text("path")?;
        self.admit(&path, Some(&value))?;
        let (parent, key) = self.destination(&path, operation)?;
        add(parent, &key, value).map_err(|why| format!("error in move for path: '{path}': {why}"))?;
        Ok(())
    }

    fn copy(&mut self, operation: &SentOperation) -> Result<(), OperationError> {
        let from = operation.text("from")?;
        let (parent, key) = self.find(&from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = get(parent, &key).map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
        let value = value.cloned().unwrap_or_default();
        let path = operation.path_or_missing()?;
        // Like the library, measures a copy by the length of its JSON text.
        self.copied += value.to_string().len();
        if self.copied > MAX_COPIED {
            return Err(OperationError::TooLarge(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED}",
                self.copied
            )));
        }
        self.admit(&path, Some(&value))?;
        let (parent, key) = self.destination(&path, operation)?;
        add(parent, &key, value).map_err(|why| format!("error while adding value during copy: {why}"))?;
        Ok(())
    }

    /// Finds the place to which an operation moves or copies a value.
    fn destination(&mut self, path: &str, operation: &SentOperation) -> Result<(&mut Value, String), String> {
        self.find(path).ok_or_else(|| {
            let kind = &operation.kind;
            format!("{kind} operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), String> {
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                // The library formats an error that is nil.
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            self.document = value;
            return Ok(());
        }
        let (parent, key) = self.find(path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        })?;
        // Against the RFC, a missing member of an object is created.
        get(parent, &key).map_err(|_| {
            format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
        })?;
        match parent {
            Value::Array(list) => {
                let index = index(&key, list.len())?;
                list[index] = value;
            }
            parent => {
                parent[&key] = value;
            }
        }
        Ok(())
    }

    fn test(&mut self, path: &str, expected: &Value) -> Result<(), String> {
        let failed = || format!("testing value {path} failed: {TEST_FAILED}");
        if path.is_empty() {
            return if self.document == *expected { Ok(()) } else { Err(failed()) };
        }
        let (parent, key) = self
            .find(path)
            .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
        let found = get(parent, &key).map_err(|why| format!("error in test for path: '{path}': {why}"))?;
        // A missing member equals null for the library.
        if found.unwrap_or(&Value::Null) == expected { Ok(()) } else { Err(failed()) }
    }

    /// Returns the object or list that holds the value at `path`, and its key there.
    fn find(&mut self, path: &str) -> Option<(&mut Value, String)> {
        let mut parts: Vec<String> =
            // The order matters, by RFC 6901: `~01` is the text `~1` and no slash.
            path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        if parts.len() < 2 {
            return None;
        }
        let key = parts.pop()?;
        let mut place = &mut self.document;
        // The part before the first slash is ignored, as in the library.
        for part in &parts[1..] {
            place = match place {
                Value::Object(members) => members.get_mut(part)?,
                Value::Array(list) => {
                    let index = index(part, list.len()).ok()?;
                    &mut list[index]
                }
                _ => return None,
            };
        }
        (place.is_object() || place.is_array()).then_some((place, key))
    }

    /// Checks that putting a value at `path` neither nests the result too deep nor costs too much work.
    fn admit(&mut self, path: &str, value: Option<&Value>) -> Result<(), OperationError> {
        // Each slash may create a level, so the path is an upper bound of the depth of the place.
        let levels = path.matches('/').count();
        let mut visited = 0;
        let depth = value.map_or(0, |value| depth(value, &mut visited));
        self.visited += visited;
        if levels + depth > MAX_DEPTH {
            return Err(format!("the object would be nested more than {MAX_DEPTH} levels deep").into());
        }
        self.shift(path)
    }

    /// Adds the list elements that an operation at `path` moves to the work of the patch.
    fn shift(&mut self, path: &str) -> Result<(), OperationError> {
        let moved = match self.find(path) {
            Some((Value::Array(list), key)) => {
                let place = number(&key).ok().and_then(|number| place(number, list.len()));
                place.map_or(0, |place| list.len().saturating_sub(place))
            }
            _ => 0,
        };
        self.visited += moved;
        if self.visited > MAX_VISITED {
            return Err(OperationError::TooLarge(
                "the operations of the patch move too many values".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Returns the depth of a value and counts its parts. The depth of all values is limited, so the recursion is too.
fn depth(value: &Value, visited: &mut usize) -> usize {
    *visited += 1;
    match value {
        Value::Array(list) => 1 + list.iter().map(|element| depth(element, visited)).max().unwrap_or(0),
        Value::Object(members) => {
            1 + members.values().map(|member| depth(member, visited)).max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn add(parent: &mut Value, key: &str, value: Value) -> Result<(), String> {
    let Value::Array(list) = parent else {
        parent[key] = value;
        return Ok(());
    };
    // `-` is the place after the last element.
    if key == "-" {
        list.push(value);
        return Ok(());
    }
    let number = number(key).map_err(|why| format!("value was not a proper array index: '{key}': {why}"))?;
    // Negative indices count from the position after the last element, where an element can be appended.
    let length = list.len() + 1;
    let index = place(number, length).filter(|index| *index < length).ok_or_else(|| invalid(number))?;
    list.insert(index, value);
    Ok(())
}

fn remove(parent: &mut Value, key: &str) -> Result<Value, String> {
    match parent {
        Value::Array(list) => {
            let index = index(key, list.len())?;
            Ok(list.remove(index))
        }
        Value::Object(members) => {
            members.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
        }
        _ => Err(MISSING.to_owned()),
    }
}

/// Returns the value of a key; `None` if the key is missing in an object, which is not an error.
fn get<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match parent {
        Value::Array(list) => Ok(Some(&list[index(key, list.len())?])),
        parent => Ok(parent.get(key)),
    }
}

/// Returns the index of an existing element.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let number = number(key)?;
    place(number, length).filter(|index| *index < length).ok_or_else(|| invalid(number))
}

/// Returns the position that a number stands for; negative numbers count from the end.
fn place(number: i64, length: usize) -> Option<usize> {
    let from_end = usize::try_from(number.unsigned_abs()).ok()?;
    if number < 0 { length.checked_sub(from_end) } else { Some(from_end) }
}

fn number(key: &str) -> Result<i64, String> {
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", crate::go::quote(key)))
}

fn invalid(index: i64) -> String {
    format!("Unable to access invalid index: {index}: invalid index referenced")
}
