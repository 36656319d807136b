//! Types of places, as server-side apply interprets schemas: objects and lists that are merged, and values that are replaced as a whole.

use serde_json::Value;

use super::set::PathElement;
use crate::go;
use crate::schema::{Cursor, JsonType, ListType, ValueKind};

/// Type of a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ty<'a> {
    Schema(Cursor<'a>),
    /// No schema: objects merge field by field, lists are replaced.
    Deduced,
}

/// Merge behavior of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    /// An object with an owner for each field.
    Map(Fields<'a>),
    /// A list with an owner for each element.
    List(Elements<'a>),
    /// An object or list that has one owner.
    Atomic(Composite),
    Scalar(ScalarType),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Composite {
    Map,
    List,
    /// Arbitrary JSON.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarType {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(Option<Cursor<'a>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'a>(Cursor<'a>);

impl<'a> Ty<'a> {
    /// Returns the shape of `value` at this place. A type that admits several shapes takes that of the value; null
    /// counts as an object.
    pub(super) fn shape(self, value: &Value) -> Shape<'a> {
        let Ty::Schema(schema) = self else {
            return deduced(value);
        };
        match schema.kind() {
            ValueKind::Any => deduced(value),
            ValueKind::Opaque => match value {
                Value::Array(_) | Value::Object(_) | Value::Null => Shape::Atomic(Composite::Any),
                _ => Shape::Scalar(ScalarType::Untyped),
            },
            // Both have no type in OpenAPI, but only a quantity is a scalar for kube-apiserver.
            ValueKind::IntOrString if is_quantity(schema) => Shape::Scalar(ScalarType::Untyped),
            ValueKind::IntOrString => deduced(value),
            ValueKind::Of(JsonType::Object) if schema.is_atomic_map() => Shape::Atomic(Composite::Map),
            ValueKind::Of(JsonType::Object) => Shape::Map(Fields(Some(schema))),
            ValueKind::Of(JsonType::Array) => match schema.list_type() {
                ListType::Atomic => Shape::Atomic(Composite::List),
                ListType::Set | ListType::Map(_) => Shape::List(Elements(schema)),
            },
            // Bytes are strings in JSON. Strings of any other format are untyped.
            ValueKind::Of(JsonType::String)
                if schema.format().is_none_or(|format| ["", "byte"].contains(&format)) =>
            {
                Shape::Scalar(ScalarType::String)
            }
            ValueKind::Of(JsonType::String) => Shape::Scalar(ScalarType::Untyped),
            ValueKind::Of(JsonType::Integer | JsonType::Number) => Shape::Scalar(ScalarType::Numeric),
            ValueKind::Of(JsonType::Boolean) => Shape::Scalar(ScalarType::Boolean),
        }
    }

    /// Returns the type of a list's elements.
    pub(super) fn items(self) -> Self {
        match self {
            Ty::Schema(schema) => schema.items().map_or(Ty::Deduced, Ty::Schema),
            Ty::Deduced => Ty::Deduced,
        }
    }

    /// Returns the type below a step of a field set.
    pub(super) fn step(self, element: &PathElement) -> Option<Self> {
        match (self, element) {
            (Ty::Deduced, _) => Some(Ty::Deduced),
            (Ty::Schema(schema), PathElement::Field(name)) => Fields(Some(schema)).field(name),
            (Ty::Schema(schema), PathElement::Key(_)) => schema.items().map(Ty::Schema),
            // Elements of a set are scalars, and elements by index are never merged: both end the path.
            (Ty::Schema(_), PathElement::Value(_) | PathElement::Index(_)) => None,
        }
    }

    /// Whether the schema declares the field `name`; entries of a map are not declared.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Ty::Schema(schema) => schema.property(name).is_some(),
            Ty::Deduced => false,
        }
    }

    /// Whether the schema alone makes values at this place atomic.
    pub(super) fn is_atomic(self) -> bool {
        match self {
            Ty::Deduced => false,
            Ty::Schema(schema) => match schema.kind() {
                ValueKind::Of(JsonType::Object) => schema.is_atomic_map(),
                ValueKind::Of(JsonType::Array) => *schema.list_type() == ListType::Atomic,
                _ => false,
            },
        }
    }
}

fn is_quantity(schema: Cursor<'_>) -> bool {
    schema.definition_name().is_some_and(|name| name.ends_with(".Quantity"))
}

fn deduced(value: &Value) -> Shape<'static> {
    match value {
        // Null has the shape of a map, because structured-merge-diff prefers the map of an untyped value.
        Value::Object(_) | Value::Null => Shape::Map(Fields(None)),
        Value::Array(_) => Shape::Atomic(Composite::List),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Shape::Scalar(ScalarType::Untyped),
    }
}

impl<'a> Fields<'a> {
    /// Returns the fields of an object of this type, whether it merges by field or not.
    pub(super) fn of(ty: Ty<'a>) -> Self {
        match ty {
            Ty::Schema(schema) => Self(Some(schema)),
            Ty::Deduced => Self(None),
        }
    }

    /// Returns the type of a field; `None` if the field is not allowed.
    pub(super) fn field(self, name: &str) -> Option<Ty<'a>> {
        let Some(schema) = self.0 else {
            return Some(Ty::Deduced);
        };
        // `properties` come first: a schema may declare some fields and allow others with a common type.
        if let Some(property) = schema.property(name).or_else(|| schema.additional()) {
            return Some(Ty::Schema(property));
        }
        // Such fields have no schema below them and merge by the form of their values.
        let free = schema.preserves_unknown_fields() || schema.additional_any() || !schema.declares_fields();
        free.then_some(Ty::Deduced)
    }

    /// Whether the schema declares the field; entries of a map are not declared.
    pub(super) fn declares(self, name: &str) -> bool {
        self.0.is_some_and(|schema| schema.property(name).is_some())
    }
}

impl<'a> Elements<'a> {
    pub(super) fn ty(self) -> Ty<'a> {
        self.0.items().map_or(Ty::Deduced, Ty::Schema)
    }

    /// Returns the identity of an element.
    ///
    /// # Errors
    /// Returns structured-merge-diff's message if the element has no identity.
    pub(super) fn identity(self, element: &Value) -> Result<PathElement, String> {
        let keys = match self.0.list_type() {
            ListType::Map(keys) => keys,
            ListType::Set | ListType::Atomic => {
                let problem = match element {
                    Value::Null => "an explicit null",
                    Value::Object(_) => "a map type",
                    Value::Array(_) => {
                        return Err("not supported: associative list with lists as elements".to_owned());
                    }
                    Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                        return Ok(PathElement::Value(element.clone()));
                    }
                };
                return Err(format!("associative list without keys has an element that's {problem}"));
            }
        };
        let fields = match element {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let items = self.0.items();
        let mut identity: Vec<(String, Value)> = keys
            .iter()
            .filter_map(|key| {
                // An omitted key field has its default, as in the stored object.
                let default = || items?.property(key)?.default_value();
                let value = fields.get(key).or_else(default)?;
                Some((key.clone(), value.clone()))
            })
            .collect();
        // structured-merge-diff accepts an element that has at least one of its key fields.
        if identity.is_empty() {
            let keys: Vec<_> = keys.iter().map(|key| go::quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        // The order of the schema's key names does not matter for the identity.
        identity.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(PathElement::Key(identity))
    }
}
