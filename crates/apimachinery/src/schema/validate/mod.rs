//! Validation of custom objects, with the results of `k8s.io/kube-openapi/pkg/validation`.
//!
//! The order of checks is: type, `oneOf`/`anyOf`/`allOf`/`not`, strings, formats, numbers, arrays, enums, objects;
//! properties by name, then missing ones. Uniqueness in sets and keyed lists is checked at the end, over the whole
//! object.

mod formats;
mod rules;
mod text;
mod unique;

use std::rc::Rc;

use serde_json::{Map, Value};

pub(super) use formats::is_known as is_format;
#[cfg(feature = "cel")]
pub(super) use formats::matches as has_format;
pub(super) use rules::ValueRules;
pub(super) use text::value as shown;

use super::Cursor;
use super::node::{Child, JsonType, SchemaNode, ValueKind};
use super::pattern::Budget;
use crate::field_path::FieldPath;
use crate::status::FieldError;

/// Number of errors after which the rest of an object is not validated.
const ERRORS: usize = 1000;
/// Total size of errors, in bytes, after which the rest of an object is not validated. Each error has a path, which may be as long as the
/// object.
const TEXT: usize = 1 << 20;

/// Errors of an object.
#[derive(Default)]
struct Errors {
    list: Vec<FieldError>,
    bytes: usize,
    /// Steps that are left for patterns, shared with alternatives of `anyOf` and similar keywords.
    budget: Rc<Budget>,
}

impl Errors {
    fn push(&mut self, error: FieldError) {
        self.bytes += error.field.len() + error.message.len();
        self.list.push(error);
    }

    fn extend(&mut self, errors: Self) {
        self.bytes += errors.bytes;
        self.list.extend(errors.list);
    }

    /// Returns an empty list with the same budget, for an alternative.
    fn alternative(&self) -> Self {
        Self { budget: Rc::clone(&self.budget), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn is_full(&self) -> bool {
        self.list.len() >= ERRORS || self.bytes >= TEXT
    }
}

/// Returns the errors of `object`, up to a limit.
///
/// If `old` is the state before an update, unchanged parts are skipped, because the schema may have become stricter since they were
/// written.
pub(super) fn validate(schema: Cursor<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    node(schema, object, old, &FieldPath::root(), &mut errors);
    errors.extend(duplicates(schema, object, old));
    errors.list
}

/// Returns the errors about duplicates in sets and keyed lists.
pub(super) fn validate_lists(schema: Cursor<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    duplicates(schema, object, old).list
}

fn duplicates(schema: Cursor<'_>, object: &Value, old: Option<&Value>) -> Errors {
    let mut duplicates = Errors::default();
    unique::check(schema, object, &FieldPath::root(), &mut duplicates);
    // As in kube-apiserver, an object that had duplicates before may keep them and get others.
    if let Some(old) = old.filter(|_| !duplicates.is_empty()) {
        let mut before = Errors::default();
        unique::check(schema, old, &FieldPath::root(), &mut before);
        if !before.is_empty() {
            return Errors::default();
        }
    }
    duplicates
}

/// Returns the errors of a part of an object, except for duplicates in sets and keyed lists.
pub(super) fn validate_part(schema: Cursor<'_>, value: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    node(schema, value, None, &FieldPath::root(), &mut errors);
    errors.list
}

/// Checks a value and the values in it, in the order that the module describes.
fn node(schema: Cursor<'_>, value: &Value, old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Errors) {
    if errors.is_full() || old.is_some_and(|old| is_unchanged(schema, old, value)) {
        return;
    }
    let rules = schema.node.rules.as_deref();
    check_type(schema.node, value, path, errors);
    if value.is_null() {
        if let Some(rules) = rules {
            rules.check_enum(value, path, errors);
        }
        return;
    }
    if let Some(rules) = rules {
        junctors(schema, rules, value, path, errors);
    }
    match value {
        Value::String(text) => {
            if let Some(rules) = rules {
                rules.check_string(text, path, errors);
            }
            if let Some(format) = schema.node.format.as_deref()
                && !formats::matches(format, text)
            {
                errors.push(text::type_error(path, format, value, &text::quoted(text)));
            }
        }
        Value::Number(number) => {
            rules::check_range(schema.node, number, path, errors);
            if let Some(rules) = rules {
                rules.check_number(schema.node, number, path, errors);
            }
        }
        Value::Array(elements) => {
            if let Some(items) = schema.items() {
                let counterparts = unique::Counterparts::of(schema, old);
                for (index, element) in elements.iter().enumerate() {
                    let old = counterparts.as_ref().and_then(|known| known.find(element));
                    node(items, element, old, &path.index(index), errors);
                }
            }
            if let Some(rules) = rules {
                rules.check_items(elements.len(), path, errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    if let Some(rules) = rules {
        rules.check_enum(value, path, errors);
    }
    if let Value::Object(fields) = value {
        object(schema, fields, old, path, errors);
    }
}

/// Checks the fields of an object: their number, each of them, and that the required ones exist.
fn object(
    schema: Cursor<'_>,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    path: &FieldPath<'_>,
    errors: &mut Errors,
) {
    if let Some(rules) = schema.node.rules.as_deref() {
        rules.check_properties(fields.len(), path, errors);
    }
    for (name, value) in fields {
        let old = old.and_then(|old| old.get(name));
        match schema.own_property(name) {
            Some(child) => node(child, value, old, &path.field(name), errors),
            None if name == "metadata" && schema.has_object_meta() => {}
            None => {
                if let Some(child) = schema.additional() {
                    node(child, value, old, &path.entry(name), errors);
                }
            }
        }
    }
    for name in schema.required() {
        if errors.is_full() {
            return;
        }
        if !fields.contains_key(name) {
            errors.push(FieldError::required(path.field(name).to_string(), ""));
        }
    }
}

/// Whether a value counts as unchanged. As in kube-apiserver, an object whose schema does not declare one of its fields never does; so an
/// object as a whole does not, because of its metadata. Elements of keyed lists may have moved.
fn is_unchanged(schema: Cursor<'_>, old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(before), Value::Array(elements)) => {
            let Some(known) = unique::Counterparts::of(schema, Some(old)) else { return before == elements };
            let is_same = |element: &Value| {
                let counterpart = known.find(element).filter(|old| !old.is_null() && element.is_object());
                let items = schema.items();
                items.zip(counterpart).is_some_and(|(items, old)| is_unchanged(items, old, element))
            };
            before.len() == elements.len() && elements.iter().all(is_same)
        }
        (Value::Object(before), Value::Object(fields)) => {
            let is_same = |(name, value): (&String, &Value)| {
                let child = schema.own_property(name).or_else(|| schema.additional());
                child.zip(before.get(name)).is_some_and(|(child, old)| is_unchanged(child, old, value))
            };
            before.len() == fields.len() && fields.iter().all(is_same)
        }
        _ => old == new,
    }
}

fn check_type(node: &SchemaNode, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let (fits, expected) = match (node.kind, value) {
        (ValueKind::Any | ValueKind::Opaque, _) => return,
        (_, Value::Null) if node.nullable => return,
        (ValueKind::IntOrString, value) => (value.is_string() || is_integer(value), "integer,string"),
        (ValueKind::Of(expected), value) => {
            let fits = match expected {
                JsonType::Object => value.is_object(),
                JsonType::Array => value.is_array(),
                JsonType::String => value.is_string(),
                JsonType::Integer => is_integer(value),
                JsonType::Number => value.is_number(),
                JsonType::Boolean => value.is_boolean(),
            };
            (fits, expected.name())
        }
    };
    // The library does not check the type of arrays that should be strings with a format.
    if fits
        || value.is_array()
            && matches!(node.kind, ValueKind::Of(JsonType::String))
            && formats::of(node).is_some()
    {
        return;
    }
    // For a value with a format, the library names formats instead of types, except for strings and arrays.
    if let (Some(format), false) =
        (formats::of(node), value.is_string() || value.is_array() || value.is_null())
    {
        let found = match value {
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int64",
            _ => "",
        };
        errors.push(text::type_error(path, format, &Value::String(found.to_owned()), &text::quoted(found)));
    } else {
        let found = text::type_name(value);
        errors.push(text::type_error(path, expected, &Value::String(found.to_owned()), &text::quoted(found)));
    }
}

fn is_integer(value: &Value) -> bool {
    match value {
        // Floats with an integer value are stored as integers, if they are small enough for the library to accept them as integers.
        Value::Number(number) => !number.is_f64(),
        _ => false,
    }
}

/// Checks `oneOf`, `anyOf`, `allOf` and `not`. If no alternative is valid, the errors of the first are reported too.
fn junctors(
    schema: Cursor<'_>,
    rules: &ValueRules,
    value: &Value,
    path: &FieldPath<'_>,
    errors: &mut Errors,
) {
    let none = errors.alternative();
    let attempt = |child: &Child| {
        let mut errors = none.alternative();
        // The old state is ignored: an alternative is valid or not for the whole value.
        node(schema.at(child), value, None, path, &mut errors);
        errors
    };
    if !rules.any_of.is_empty() {
        let mut attempts = rules.any_of.iter().map(attempt);
        let first = attempts.next().unwrap_or_default();
        if !first.is_empty() && attempts.all(|errors| !errors.is_empty()) {
            errors.push(text::unplaced(&format!("\"{path}\" must validate at least one schema (anyOf)")));
            errors.extend(first);
        }
    }
    if !rules.one_of.is_empty() {
        let attempts: Vec<_> = rules.one_of.iter().map(attempt).collect();
        let valid = attempts.iter().filter(|errors| errors.is_empty()).count();
        let text = format!("\"{path}\" must validate one and only one schema (oneOf).");
        if valid == 0 {
            errors.push(text::unplaced(&format!("{text} Found none valid")));
            errors.extend(attempts.into_iter().next().unwrap_or_default());
        } else if valid > 1 {
            errors.push(text::unplaced(&format!("{text} Found {valid} valid alternatives")));
        }
    }
    if !rules.all_of.is_empty() {
        let mut valid = 0;
        for child in &rules.all_of {
            let found = attempt(child);
            valid += usize::from(found.is_empty());
            errors.extend(found);
        }
        if valid < rules.all_of.len() {
            let rest = if valid == 0 { ". None validated" } else { "" };
            errors.push(text::unplaced(&format!("\"{path}\" must validate all the schemas (allOf){rest}")));
        }
    }
    if let Some(not) = &rules.not
        && attempt(not).is_empty()
    {
        errors.push(text::unplaced(&format!("\"{path}\" must not validate the schema (not)")));
    }
}

#[cfg(test)]
mod tests;
