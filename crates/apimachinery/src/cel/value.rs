//! Values during the evaluation of an expression. They borrow from JSON documents instead of copying them, and a copy of a value takes
//! constant time.
//!
//! A document without a schema has the types of JSON. With a schema, times, durations and bytes have their own types, and lists and
//! objects keep their schema, because it decides about equality and about visible fields.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::authorization::{AccessQuery, AuthorizerDecision};
use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::message::MessageValue;
use super::named_format::NamedFormat;
use super::network::Network;
use super::property_name;
use super::quantities::CelQuantity;
use super::semantic_version::SemanticVersion;
use super::times::Moment;
use super::value_schema::{SchemaList, ValueSchema};
use crate::go::Url;

/// A literal in the text of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    /// 2⁶³, which is only valid after a minus sign.
    IntMinimum,
}

/// Like [`Cow`](std::borrow::Cow), but an owned value is shared by its clones.
#[derive(Debug)]
pub(super) enum RcCow<'a, T: ?Sized> {
    Borrowed(&'a T),
    Owned(Rc<T>),
}

impl<T: ?Sized> Clone for RcCow<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(value) => Self::Borrowed(value),
            Self::Owned(value) => Self::Owned(Rc::clone(value)),
        }
    }
}

impl<T: ?Sized> Deref for RcCow<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

impl RcCow<'_, str> {
    /// Returns a text that outlives the document.
    pub(super) fn shared(&self) -> Rc<str> {
        match self {
            Self::Borrowed(text) => Rc::from(*text),
            Self::Owned(text) => Rc::clone(text),
        }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(RcCow<'a, str>),
    Bytes(RcCow<'a, [u8]>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    JsonList(&'a [Value]),
    JsonMap(&'a Map<String, Value>),
    /// A list with a schema of its elements.
    TypedList(&'a [Value], &'a ValueSchema),
    /// An object with a schema of its fields or entries.
    TypedMap(&'a Map<String, Value>, &'a ValueSchema),
    /// A sum of which the first operand is a set or a keyed list with this schema.
    KeyedList(Rc<Vec<Val<'a>>>, &'a ValueSchema),
    /// A value with a schema that preserves unknown fields and has no type. It can only be compared.
    Preserved(&'a Value),
    /// Error about a value that does not fit its schema. It becomes the error of an operation that uses the value.
    Unusable(Rc<str>),
    Timestamp(Moment),
    /// A duration in nanoseconds.
    Duration(i64),
    Optional(Option<Rc<Val<'a>>>),
    Quantity(CelQuantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Network),
    Semver(Rc<SemanticVersion>),
    Format(&'static NamedFormat),
    /// Name of a type.
    Type(&'a str),
    /// An incomplete query to the authorizer.
    Query(Rc<AccessQuery>),
    Decision(Rc<AuthorizerDecision>),
    /// An object that the expression constructed.
    Message(Rc<MessageValue<'a>>),
}

impl<'a> Val<'a> {
    pub(super) fn literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::IntMinimum => Self::Int(i64::MIN),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::String(value) => Self::String(RcCow::Borrowed(value)),
            Literal::Bytes(value) => Self::Bytes(RcCow::Borrowed(value)),
        }
    }

    pub(super) fn json(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Self::Int(value),
                (None, value) => Self::Double(value.unwrap_or_default()),
            },
            Value::String(value) => Self::String(RcCow::Borrowed(value)),
            Value::Array(list) => Self::JsonList(list),
            Value::Object(map) => Self::JsonMap(map),
        }
    }

    pub(super) fn text(value: impl Into<Rc<str>>) -> Self {
        Self::String(RcCow::Owned(value.into()))
    }

    pub(super) fn list(elements: Vec<Val<'a>>) -> Self {
        Self::List(Rc::new(elements))
    }

    pub(super) fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(super) const NONE: Val<'static> = Val::Optional(None);

    /// Returns the value, or its error if it is not usable.
    pub(super) fn usable(self) -> Result<Self, EvaluationError> {
        match self {
            Self::Unusable(why) => Err(failed(&*why)),
            value => Ok(value),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::JsonList(_) | Self::TypedList(..) | Self::KeyedList(..))
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::JsonMap(_) | Self::TypedMap(..))
    }

    /// Returns the schema of a set or of a keyed list: the order of both does not count.
    pub(super) fn unordered(&self) -> Option<&'a ValueSchema> {
        match self {
            Self::TypedList(_, schema) | Self::KeyedList(_, schema) => {
                (schema.list != SchemaList::Atomic).then_some(*schema)
            }
            _ => None,
        }
    }

    /// Returns an element of a list; `None` after its end, or if this is not a list.
    pub(super) fn element(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::List(list) | Self::KeyedList(list, _) => list.get(index).cloned(),
            Self::JsonList(list) => list.get(index).map(Val::json),
            Self::TypedList(list, schema) => list.get(index).map(|element| schema.element(element)),
            _ => None,
        }
    }

    /// Returns the values that a macro visits: the elements of a list, or the keys of a map.
    pub(super) fn range(&self) -> Option<Box<dyn Iterator<Item = Val<'a>> + '_>> {
        Some(match self {
            Self::List(list) | Self::KeyedList(list, _) => Box::new(list.iter().cloned()),
            Self::JsonList(list) => Box::new(list.iter().map(Val::json)),
            Self::TypedList(list, schema) => Box::new(list.iter().map(|element| schema.element(element))),
            Self::Map(entries) => Box::new(entries.iter().map(|(key, _)| key.clone())),
            Self::JsonMap(map) => Box::new(map.keys().map(|key| Val::String(RcCow::Borrowed(key)))),
            Self::TypedMap(map, schema) => {
                let declared = map.keys().filter(|key| schema.declares(key));
                Box::new(declared.map(
                    |key| match property_name::escape(key).filter(|_| schema.has_fields()) {
                        Some(Cow::Owned(escaped)) => Val::text(escaped),
                        _ => Val::String(RcCow::Borrowed(key)),
                    },
                ))
            }
            _ => return None,
        })
    }

    /// Returns the value of a key of a map, `None` if it is absent or this is not a map.
    pub(super) fn get(&self, key: &Val<'_>, cost: &mut Cost) -> Result<Option<Val<'a>>, EvaluationError> {
        match (self, key) {
            (Self::JsonMap(map), Val::String(key)) => {
                cost.text(key.len())?;
                Ok(map.get(&**key).map(Val::json))
            }
            (Self::TypedMap(map, schema), Val::String(key)) => {
                cost.text(key.len())?;
                Ok(schema.find(map, key))
            }
            (Self::TypedMap(..), _) => Err(no_overload()),
            (Self::Message(message), Val::String(key)) => {
                cost.values(message.fields.len())?;
                Ok(message.field(key).cloned())
            }
            (Self::Map(entries), key) => {
                for (known, value) in entries.iter() {
                    if known.equals(key, cost)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Returns the number of elements or entries.
    pub(super) fn count(&self) -> Option<usize> {
        Some(match self {
            Self::List(list) | Self::KeyedList(list, _) => list.len(),
            Self::JsonList(list) | Self::TypedList(list, _) => list.len(),
            Self::Map(entries) => entries.len(),
            Self::JsonMap(map) | Self::TypedMap(map, _) => map.len(),
            _ => return None,
        })
    }

    /// Returns the number of characters, bytes, elements or entries.
    pub(super) fn size(&self, cost: &mut Cost) -> Result<Option<usize>, EvaluationError> {
        Ok(match self {
            Self::String(text) => {
                cost.text(text.len())?;
                Some(text.chars().count())
            }
            Self::Bytes(bytes) => Some(bytes.len()),
            other => other.count(),
        })
    }

    /// Returns the name of the type.
    pub(super) fn type_name(&self) -> &'a str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) | Self::JsonList(_) | Self::TypedList(..) | Self::KeyedList(..) => "list",
            Self::Map(_) | Self::JsonMap(_) | Self::TypedMap(..) => "map",
            Self::Preserved(_) => "unknown",
            Self::Unusable(_) => "error",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Type(_) => "type",
            Self::Query(_) => "kubernetes.authorization.Authorizer",
            Self::Decision(_) => "kubernetes.authorization.Decision",
            Self::Message(message) => message.name,
        }
    }
}
