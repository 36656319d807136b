//! Values during the evaluation of an expression. They borrow from JSON documents instead of copying them, and a copy of a value takes
//! constant time.
//!
//! A document without a schema has the types of JSON. With a schema, times, durations and bytes have their own types, and lists and
//! objects keep their schema, because it decides about equality and about visible fields.

use std::borrow::Cow;
use std::cmp::Ordering;
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
    /// 2⁶³, which is only valid behind a minus sign.
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

    /// Returns an element of a list; `None` behind its end, or if this is not a list.
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

    /// Compares values of any types, numbers by their value. Each compared pair of values is paid for.
    ///
    /// Recurses at most as deep as the values are nested: those of documents as deep as the decoder allows, others as deep as the parser
    /// allows.
    pub(super) fn equals(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        cost.spend(1)?;
        match (self, other) {
            (Self::Null, Val::Null) => Ok(true),
            (Self::Bool(one), Val::Bool(two)) => Ok(one == two),
            (Self::String(one), Val::String(two)) => {
                cost.text(one.len().min(two.len()))?;
                Ok(**one == **two)
            }
            (Self::Bytes(one), Val::Bytes(two)) => {
                cost.text(one.len().min(two.len()))?;
                Ok(**one == **two)
            }
            (Self::Type(one), Val::Type(two)) => Ok(one == two),
            (Self::Message(one), Val::Message(two)) => one.equals(two, cost),
            (Self::Timestamp(one), Val::Timestamp(two)) => Ok(one.at == two.at),
            (Self::Duration(one), Val::Duration(two)) => Ok(one == two),
            (Self::Optional(one), Val::Optional(two)) => match (one, two) {
                (Some(one), Some(two)) => one.equals(two, cost),
                (one, two) => Ok(one.is_none() && two.is_none()),
            },
            (Self::Quantity(one), Val::Quantity(two)) => Ok(one.amount == two.amount),
            (Self::Url(one), Val::Url(two)) => Ok(one == two),
            (Self::Ip(one), Val::Ip(two)) => Ok(one == two),
            (Self::Cidr(one), Val::Cidr(two)) => Ok(one == two),
            (Self::Semver(one), Val::Semver(two)) => Ok(one.compare(two).is_eq()),
            (Self::Format(one), Val::Format(two)) => Ok(one.name == two.name),
            (Self::Preserved(one), Val::Preserved(two)) => {
                cost.json(one)?;
                Ok(one == two)
            }
            (Self::Unusable(why), _) | (_, Val::Unusable(why)) => Err(failed(&**why)),
            // The library's types refuse other types instead of being unequal to them.
            (one, _) if one.is_opaque() => Err(no_overload()),
            (one, two) if one.is_map() && two.is_map() => one.equals_map(two, cost),
            (one, two) if one.is_list() && two.is_list() => one.equals_list(two, cost),
            (one, two) => Ok(one.compare_numbers(two) == Some(Ordering::Equal)),
        }
    }

    fn equals_map(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        if self.count() != other.count() {
            return Ok(false);
        }
        if let (Self::TypedMap(one, schema), Val::TypedMap(two, _)) = (self, other) {
            // Fields without a schema are compared as JSON, if both objects have them.
            for (key, value) in one.iter().filter(|(key, _)| !schema.declares(key)) {
                cost.json(value)?;
                if two.get(key).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
        for key in self.range().into_iter().flatten() {
            let equal = match (self.get(&key, cost)?, other.get(&key, cost)?) {
                (Some(one), Some(two)) => one.equals(&two, cost)?,
                // A field that is null counts as absent.
                (None, None) => true,
                _ => false,
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equals_list(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        if self.count() != other.count() {
            return Ok(false);
        }
        // As in kube-apiserver, the first operand decides whether the order counts.
        if let Some(schema) = self.unordered() {
            return self.equals_unordered(other, schema, cost);
        }
        for (one, two) in self.range().into_iter().flatten().zip(other.range().into_iter().flatten()) {
            if !one.equals(&two, cost)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares a set or a keyed list with a list of the same length.
    fn equals_unordered(
        &self,
        other: &Val<'_>,
        schema: &ValueSchema,
        cost: &mut Cost,
    ) -> Result<bool, EvaluationError> {
        for wanted in other.range().into_iter().flatten() {
            let mut is_known = false;
            for known in self.range().into_iter().flatten() {
                if known.same_identity(&wanted, schema, cost)? {
                    is_known = matches!(schema.list, SchemaList::Set) || known.equals(&wanted, cost)?;
                    break;
                }
            }
            if !is_known {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether two elements are the same one of a set, or have the same keys in a keyed list.
    pub(super) fn same_identity(
        &self,
        other: &Val<'_>,
        schema: &ValueSchema,
        cost: &mut Cost,
    ) -> Result<bool, EvaluationError> {
        let SchemaList::Keyed(keys) = &schema.list else { return self.equals(other, cost) };
        for key in keys {
            let key = Val::String(RcCow::Borrowed(&key.identifier));
            let equal = match (self.get(&key, cost)?, other.get(&key, cost)?) {
                (Some(one), Some(two)) => one.equals(&two, cost)?,
                (one, two) => one.is_none() && two.is_none(),
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares values of an ordered type.
    pub(super) fn compare(
        &self,
        other: &Val<'_>,
        cost: &mut Cost,
    ) -> Result<Option<Ordering>, EvaluationError> {
        cost.spend(1)?;
        Ok(match (self, other) {
            (Self::Bool(one), Val::Bool(two)) => Some(one.cmp(two)),
            (Self::String(one), Val::String(two)) => {
                cost.text(one.len().min(two.len()))?;
                Some((**one).cmp(&**two))
            }
            (Self::Bytes(one), Val::Bytes(two)) => {
                cost.text(one.len().min(two.len()))?;
                Some((**one).cmp(&**two))
            }
            (Self::Timestamp(one), Val::Timestamp(two)) => Some(one.at.cmp(&two.at)),
            (Self::Duration(one), Val::Duration(two)) => Some(one.cmp(two)),
            (one, two) => one.compare_numbers(two),
        })
    }

    fn compare_numbers(&self, other: &Val<'_>) -> Option<Ordering> {
        let double = |value: &Val<'_>| match value {
            Val::Int(value) => Some(*value as f64),
            Val::Uint(value) => Some(*value as f64),
            Val::Double(value) => Some(*value),
            _ => None,
        };
        match (self, other) {
            (Self::Int(one), Val::Int(two)) => Some(one.cmp(two)),
            (Self::Uint(one), Val::Uint(two)) => Some(one.cmp(two)),
            (Self::Int(one), Val::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Self::Uint(one), Val::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            // With a float on one side both are compared as floats; a NaN has no order.
            (one, two) => double(one)?.partial_cmp(&double(two)?),
        }
    }

    /// Whether this is a value of Kubernetes' libraries.
    fn is_opaque(&self) -> bool {
        matches!(
            self,
            Self::Quantity(_)
                | Self::Url(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Semver(_)
                | Self::Format(_)
                | Self::Query(_)
                | Self::Decision(_)
        )
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
