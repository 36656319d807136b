//! Objects that an expression constructs: `Object{spec: Object.spec{replicas: 3}}` and `JSONPatch{op: 'add', path: '/x', value: 1}`.
//!
//! Mutations of admission policies use them. The fields of `Object` and of all types below it are of any type: only the result is checked
//! against the schema of its kind.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed};
use super::functions::Evaluated;
use super::identifier::without_dot;
use super::syntax_tree::SyntaxNode;
use super::times;
use super::types::Type;
use super::value::Val;
use crate::go::quote;

/// Type of a configuration that is applied to an object.
const OBJECT: &str = "Object";
/// Type of an operation of a JSON patch.
const JSON_PATCH: &str = "JSONPatch";
/// Types without a dot in their name, which an identifier can stand for.
pub(super) const TYPES: [&str; 2] = [OBJECT, JSON_PATCH];
/// Cost of a message, as in cel-go.
const CREATION: u64 = 40;

/// Largest integer such that floats hold it and all smaller ones exactly.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// The construction of a message.
#[derive(Debug)]
pub(super) struct MessageNode {
    /// Name of the type, such as `Object.spec`.
    pub(super) name: String,
    pub(super) fields: Vec<FieldInitializer>,
}

/// `field: value`, or `?field: value`.
#[derive(Debug)]
pub(super) struct FieldInitializer {
    /// Offset of the colon, which messages about the field show.
    pub(super) at: usize,
    pub(super) name: String,
    /// Whether the value is an optional that sets the field only if it has a value.
    pub(super) is_optional: bool,
    pub(super) value: SyntaxNode,
}

impl MessageNode {
    /// Returns the name of the type without the dot that a global name may begin with.
    pub(super) fn type_name(&self) -> &str {
        without_dot(&self.name)
    }
}

/// A constructed object.
#[derive(Debug)]
pub(super) struct MessageValue<'a> {
    pub(super) name: &'a str,
    pub(super) fields: Vec<(&'a str, Val<'a>)>,
}

/// Returns the type of a message; `None` if there is no such type.
pub(super) fn type_named(name: &str) -> Option<Type> {
    let is_object = name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    (is_object || name == JSON_PATCH).then(|| Type::Message(name.into()))
}

/// Returns the type of a field of a message; `None` if there is no such field.
pub(super) fn field_type(message: &str, field: &str) -> Option<Type> {
    match (message, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(Type::String),
        (JSON_PATCH, "value") => Some(Type::Dyn),
        (JSON_PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}

/// Constructs a message.
///
/// # Errors
/// The text of kube-apiserver for a field of JSONPatch with a wrong name or type.
pub(super) fn construct<'a>(
    name: &'a str,
    fields: Vec<(&'a str, Val<'a>)>,
    cost: &mut Cost,
) -> Evaluated<'a> {
    cost.spend(CREATION)?;
    cost.values(fields.len())?;
    if name == JSON_PATCH {
        for (field, value) in &fields {
            match (*field, value) {
                ("op" | "path" | "from", Val::String(_)) | ("value", _) => {}
                ("op" | "path" | "from", value) => {
                    let found = native_type(value);
                    return Err(failed(format!("unexpected type {found} for JSONPatchType '{field}' field")));
                }
                _ => return Err(failed(format!("unexpected JSONPatchType field: {field}"))),
            }
        }
    }
    Ok(Val::Message(Rc::new(MessageValue { name, fields })))
}

/// Returns the name of the Go type to which cel-go converts a value.
fn native_type(value: &Val<'_>) -> &'static str {
    match value {
        Val::Null => "structpb.NullValue",
        Val::Bool(_) => "bool",
        Val::Int(_) => "int64",
        Val::Uint(_) => "uint64",
        Val::Double(_) => "float64",
        Val::Bytes(_) => "[]uint8",
        Val::List(_) => "[]ref.Val",
        Val::Map(_) => "map[ref.Val]ref.Val",
        Val::JsonList(_) => "[]interface {}",
        Val::JsonMap(_) => "map[string]interface {}",
        _ => "ref.Val",
    }
}

impl<'a> MessageValue<'a> {
    /// Returns a field; `None` if the message does not set it.
    pub(super) fn field(&self, name: &str) -> Option<&Val<'a>> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn equals(&self, other: &MessageValue<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for (name, value) in &self.fields {
            match other.field(name) {
                Some(other) if value.equals(other, cost)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether this is an operation of a JSON patch.
    pub(super) fn is_patch_operation(&self) -> bool {
        self.name == JSON_PATCH
    }

    /// Checks that each nested message has the type that its place says: `Object.spec` for the field `spec` of an `Object`.
    ///
    /// # Errors
    /// All wrong types, one per line.
    pub(super) fn check_types(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        self.check_types_at(self.name, &mut wrong);
        if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n"))) }
    }

    fn check_types_at(&self, expected: &str, wrong: &mut Vec<String>) {
        if self.name != expected {
            let (name, expected) = (quote(self.name), quote(expected));
            wrong.push(format!(
                "unexpected type name {name}, expected {expected}, which matches field name path from root Object type"
            ));
        }
        for (field, value) in &self.fields {
            check_value(value, &format!("{expected}.{field}"), wrong);
        }
    }
}

/// Checks the messages in a value. Elements of lists and maps have the type of their list or map.
fn check_value(value: &Val<'_>, expected: &str, wrong: &mut Vec<String>) {
    match value {
        Val::Message(message) => message.check_types_at(expected, wrong),
        Val::List(elements) => elements.iter().for_each(|element| check_value(element, expected, wrong)),
        Val::Map(entries) => entries.iter().for_each(|(_, value)| check_value(value, expected, wrong)),
        _ => {}
    }
}

/// Converts a value to JSON, for an operation of a JSON patch.
///
/// Recurses at most as deep as values are nested: those of documents as deep as the decoder allows, others as deep as the parser allows.
///
/// # Errors
/// The reason why there is no JSON value.
pub(super) fn to_json(value: &Val<'_>, cost: &mut Cost) -> Result<Value, String> {
    pay(value, cost)?;
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        // As in protobuf's JSON, integers that a float cannot hold are texts.
        Val::Int(value) if value.unsigned_abs() <= LARGEST_EXACT => Value::Number((*value).into()),
        Val::Int(value) => Value::String(value.to_string()),
        Val::Uint(value) if *value <= LARGEST_EXACT => Value::Number((*value).into()),
        Val::Uint(value) => Value::String(value.to_string()),
        Val::Double(value) => Value::Number(number(*value)?),
        Val::String(text) => Value::String(text.to_string()),
        Val::Bytes(bytes) => Value::String(STANDARD.encode(&**bytes)),
        Val::List(elements) => {
            let elements: Result<Vec<_>, _> = elements.iter().map(|element| to_json(element, cost)).collect();
            Value::Array(elements?)
        }
        Val::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries.iter() {
                let Val::String(key) = key else {
                    return Err(format!("unsupported type conversion from '{}' to string", key.type_name()));
                };
                map.insert(key.to_string(), to_json(value, cost)?);
            }
            Value::Object(map)
        }
        Val::Message(message) => {
            let mut map = Map::new();
            for (name, value) in &message.fields {
                map.insert((*name).to_owned(), to_json(value, cost)?);
            }
            Value::Object(map)
        }
        Val::JsonList(_) | Val::JsonMap(_) => copied(value, cost)?,
        Val::Timestamp(_) | Val::Duration(_) => times::text_of(value).map_or(Value::Null, Value::String),
        other => return Err(format!("unsupported conversion of type '{}'", other.type_name())),
    })
}

/// Converts a value to JSON, for a configuration to apply. `path` is the place of the value in the object.
///
/// Recurses like [`to_json`].
///
/// # Errors
/// kube-apiserver's text, as far as it does not depend on the schema, for a value that cannot be applied: null, an unsigned integer, and a
/// list or map in a literal list or map, which kube-apiserver does not convert.
pub(super) fn to_configuration(value: &Val<'_>, path: &str, cost: &mut Cost) -> Result<Value, String> {
    pay(value, cost)?;
    let unfit = |why: &str| {
        format!("error applying patch: failed to convert patch object to typed object: {path}: {why}")
    };
    Ok(match value {
        Val::Null => return Err(unfit("expected a value, got &{NULL_VALUE}")),
        Val::Uint(_) => return Err(unfit("expected numeric (int or float), got uint64")),
        Val::Bytes(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
            let shown = bytes.join(", ");
            return Err(unfit(&format!(
                "expected string, got &value.valueUnstructured{{Value:[]uint8{{{shown}}}}}"
            )));
        }
        Val::Bool(value) => Value::Bool(*value),
        Val::Int(value) => Value::Number((*value).into()),
        Val::Double(value) => Value::Number(number(*value)?),
        Val::String(text) => Value::String(text.to_string()),
        Val::List(elements) => {
            let mut list = Vec::with_capacity(elements.len());
            for (index, element) in elements.iter().enumerate() {
                if matches!(element, Val::Null | Val::List(_) | Val::Map(_)) {
                    let why = "associative list with keys may not have non-map elements";
                    return Err(unfit(&format!("element {index}: {why}")));
                }
                list.push(to_configuration(element, &format!("{path}[{index}]"), cost)?);
            }
            Value::Array(list)
        }
        Val::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries.iter() {
                let Val::String(key) = key else {
                    return Err(unfit(&format!("map key is of type {}, not string", key.type_name())));
                };
                let path = format!("{path}.{}", &**key);
                if matches!(value, Val::List(_) | Val::Map(_)) {
                    let found = value.type_name();
                    return Err(format!(
                        "error applying patch: failed to convert patch object to typed object: {path}: expected a value, got a \
                         {found}"
                    ));
                }
                map.insert(key.to_string(), to_configuration(value, &path, cost)?);
            }
            Value::Object(map)
        }
        Val::Message(message) => {
            let mut map = Map::new();
            for (name, value) in &message.fields {
                map.insert((*name).to_owned(), to_configuration(value, &format!("{path}.{name}"), cost)?);
            }
            Value::Object(map)
        }
        Val::JsonList(_) | Val::JsonMap(_) => copied(value, cost)?,
        other => return Err(unfit(&format!("unsupported type {}", other.type_name()))),
    })
}

/// Pays for a copy of a value without its elements.
fn pay(value: &Val<'_>, cost: &mut Cost) -> Result<(), String> {
    let paid = cost.spend(1).and_then(|()| match value {
        Val::String(text) => cost.text(text.len()),
        Val::Bytes(bytes) => cost.text(bytes.len()),
        _ => Ok(()),
    });
    paid.map_err(|error| error.to_string())
}

/// Copies a list or map of a document.
fn copied(value: &Val<'_>, cost: &mut Cost) -> Result<Value, String> {
    match value {
        Val::JsonList(list) => {
            let elements: Result<Vec<_>, _> =
                list.iter().map(|element| copied(&Val::json(element), cost)).collect();
            elements.map(Value::Array)
        }
        Val::JsonMap(map) => {
            let entries = map.iter();
            let entries: Result<Map<_, _>, String> =
                entries.map(|(key, value)| Ok((key.clone(), copied(&Val::json(value), cost)?))).collect();
            entries.map(Value::Object)
        }
        scalar => to_json(scalar, cost),
    }
}

/// Converts a float. As in Go's JSON, a whole number has no fraction.
fn number(value: f64) -> Result<Number, String> {
    let whole = value as i64;
    if whole as f64 == value && whole.unsigned_abs() <= LARGEST_EXACT {
        return Ok(whole.into());
    }
    Number::from_f64(value).ok_or_else(|| "a number that is not finite has no JSON value".to_owned())
}
