//! Type check of an applied object, with the messages of structured-merge-diff.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::set::PathElement;
use super::typed::{Composite, Elements, Fields, ScalarType, Shape, Ty};
use crate::go;

/// Treatment of elements of a list with the same keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duplicates {
    /// They are errors, as in an applied configuration.
    Refused,
    /// They are accepted, as in a stored object.
    Accepted,
}

/// Errors so far.
struct SchemaErrors {
    duplicates: Duplicates,
    messages: Vec<String>,
}

impl SchemaErrors {
    fn push(&mut self, message: String) {
        self.messages.push(message);
    }
}

/// Returns the message if an applied configuration does not fit its schema; several errors are joined into one.
pub(super) fn check(ty: Ty<'_>, object: &Value) -> Option<String> {
    check_with(ty, object, Duplicates::Refused)
}

/// Like [`check`], for an object that was written by other means than an apply.
pub(super) fn check_written(ty: Ty<'_>, object: &Value) -> Option<String> {
    check_with(ty, object, Duplicates::Accepted)
}

fn check_with(ty: Ty<'_>, object: &Value, duplicates: Duplicates) -> Option<String> {
    let mut errors = SchemaErrors { duplicates, messages: Vec::new() };
    place(ty, object, &Trail::Root, &mut errors);
    match &*errors.messages {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

/// A path as a chain of borrowed steps, formatted only for an error.
enum Trail<'a> {
    Root,
    Field(&'a Trail<'a>, &'a str),
    Element(&'a Trail<'a>, &'a PathElement),
    Index(&'a Trail<'a>, usize),
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, element) => write!(f, "{parent}{element}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

fn place(ty: Ty<'_>, value: &Value, path: &Trail<'_>, errors: &mut SchemaErrors) {
    // Null fits every type in structured-merge-diff.
    if value.is_null() {
        return;
    }
    let expected = match (ty.shape(value), value) {
        (Shape::Map(fields), Value::Object(entries)) => return map(fields, entries, path, errors),
        (Shape::List(elements), Value::Array(items)) => return list(elements, items, path, errors),
        // The contents of an atomic value must fit the schema too.
        (Shape::Atomic(Composite::Map), Value::Object(entries)) => {
            return map(Fields::of(ty), entries, path, errors);
        }
        (Shape::Atomic(Composite::List), Value::Array(items)) => {
            let ty = ty.items();
            for (index, item) in items.iter().enumerate() {
                place(ty, item, &Trail::Index(path, index), errors);
            }
            return;
        }
        (Shape::Atomic(Composite::Any), _) => return,
        (Shape::Map(_) | Shape::Atomic(Composite::Map), _) => format!("map, got &{{{}}}", go::value(value)),
        (Shape::List(_) | Shape::Atomic(Composite::List), _) => {
            format!("list, got &{{{}}}", go::value(value))
        }
        (Shape::Scalar(scalar), _) => match scalar_error(scalar, value) {
            None => return,
            Some(error) => error,
        },
    };
    errors.push(format!("{path}: expected {expected}"));
}

fn map(
    fields: Fields<'_>,
    entries: &serde_json::Map<String, Value>,
    path: &Trail<'_>,
    errors: &mut SchemaErrors,
) {
    for (name, value) in entries {
        let path = &Trail::Field(path, name);
        match fields.field(name) {
            Some(ty) => place(ty, value, path, errors),
            // The fields after an undeclared one are not checked. Go visits them in random order.
            None => return errors.push(format!("{path}: field not declared in schema")),
        }
    }
}

fn list(elements: Elements<'_>, items: &[Value], path: &Trail<'_>, errors: &mut SchemaErrors) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        match elements.identity(item) {
            // The elements after one without an identity are not checked.
            Err(error) => return errors.push(format!("{path}: element {index}: {error}")),
            Ok(identity) => {
                place(elements.ty(), item, &Trail::Element(path, &identity), errors);
                if errors.duplicates == Duplicates::Accepted {
                    continue;
                }
                if seen.contains(&identity) {
                    errors.push(format!("{path}: duplicate entries for key {identity}"));
                } else {
                    seen.insert(identity);
                }
            }
        }
    }
}

fn scalar_error(scalar: ScalarType, value: &Value) -> Option<String> {
    let fits = match scalar {
        ScalarType::Numeric => value.is_number(),
        ScalarType::String => value.is_string(),
        ScalarType::Boolean => value.is_boolean(),
        ScalarType::Untyped => !value.is_object() && !value.is_array(),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        ScalarType::Numeric => format!("numeric (int or float), got {}", go::type_of(value)),
        ScalarType::String => format!("string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)),
        ScalarType::Boolean => format!("boolean, got &{{{}}}", go::value(value)),
        ScalarType::Untyped => format!("any scalar, got &{{{}}}", go::value(value)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Schema, schema_of_kind};

    /// Checked against kube-apiserver v1.36.3.
    #[test]
    fn a_number_or_string_may_be_anything_and_a_quantity_is_a_scalar() {
        let custom = Schema::of_crd(
            &json!({"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}}),
        );
        for value in [json!({}), json!({"a": 1}), json!([1]), json!("x"), json!(5)] {
            assert_eq!(check(Ty::Schema(custom.root()), &json!({"port": value})), None);
        }
        let service = schema_of_kind("v1", "Service").unwrap();
        let ports = json!({"spec": {"ports": [{"port": 80, "targetPort": {}}]}});
        assert_eq!(check(Ty::Schema(service.root()), &ports), None);
        let quota = schema_of_kind("v1", "ResourceQuota").unwrap();
        assert_eq!(
            check(Ty::Schema(quota.root()), &json!({"spec": {"hard": {"cpu": {}}}})).as_deref(),
            Some(".spec.hard.cpu: expected any scalar, got &{map[]}")
        );
    }

    /// Checked against kube-apiserver v1.36.3, which visits the fields of an object in random order.
    #[test]
    fn one_undeclared_field_of_each_object_is_reported() {
        let service = schema_of_kind("v1", "Service").unwrap();
        let object = json!({"metadata": {"bogus": 1, "other": 1}, "spec": {"bogus": 1, "selector": 5}});
        assert_eq!(
            check(Ty::Schema(service.root()), &object).as_deref(),
            Some(
                "errors:\n  .metadata.bogus: field not declared in schema\n  .spec.bogus: field not declared in schema"
            )
        );
    }
}
