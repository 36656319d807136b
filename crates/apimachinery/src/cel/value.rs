//! Values during the evaluation of an expression. They borrow from JSON documents instead of copying them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::authorization::{AccessQuery, AuthorizerDecision};

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

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    JsonList(&'a [Value]),
    JsonMap(&'a Map<String, Value>),
    /// Name of a type.
    Type(&'static str),
    /// An incomplete query to the authorizer.
    Query(Rc<AccessQuery>),
    Decision(Rc<AuthorizerDecision>),
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
            Literal::String(value) => Self::String(Cow::Borrowed(value)),
            Literal::Bytes(value) => Self::Bytes(Cow::Borrowed(value)),
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
            Value::String(value) => Self::String(Cow::Borrowed(value)),
            Value::Array(list) => Self::JsonList(list),
            Value::Object(map) => Self::JsonMap(map),
        }
    }

    pub(super) fn text(value: impl Into<String>) -> Self {
        Self::String(Cow::Owned(value.into()))
    }

    /// Returns the elements of a list.
    pub(super) fn elements(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Self::List(list) => Some(list.to_vec()),
            Self::JsonList(list) => Some(list.iter().map(Val::json).collect()),
            _ => None,
        }
    }

    /// Returns the values that a macro visits: the elements of a list, or the keys of a map.
    pub(super) fn range(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Self::Map(entries) => Some(entries.iter().map(|(key, _)| key.clone()).collect()),
            Self::JsonMap(map) => Some(map.keys().map(|key| Val::String(Cow::Borrowed(key))).collect()),
            list => list.elements(),
        }
    }

    /// Returns the value of a key of a map, `None` if it is absent or this is not a map.
    pub(super) fn get(&self, key: &Val<'_>) -> Option<Val<'a>> {
        match (self, key) {
            (Self::JsonMap(map), Val::String(key)) => map.get(&**key).map(Val::json),
            (Self::Map(entries), key) => {
                entries.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value.clone())
            }
            _ => None,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::JsonMap(_))
    }

    /// Returns the number of characters, bytes, elements or entries.
    pub(super) fn len(&self) -> Option<usize> {
        Some(match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::JsonList(list) => list.len(),
            Self::Map(entries) => entries.len(),
            Self::JsonMap(map) => map.len(),
            _ => return None,
        })
    }

    /// Returns the number of parts that a comparison or a copy visits.
    pub(super) fn weight(&self) -> u64 {
        let weight = match self {
            // As in cel-go, the cost of a text is a tenth of its length.
            Self::String(text) => text.len() / 10,
            Self::Bytes(bytes) => bytes.len() / 10,
            Self::List(list) => list.len() + 1,
            Self::JsonList(list) => list.iter().map(weight).sum::<usize>() + 1,
            Self::Map(entries) => entries.len() + 1,
            Self::JsonMap(map) => map.values().map(weight).sum::<usize>() + 1,
            _ => 1,
        };
        u64::try_from(weight).unwrap_or(u64::MAX).max(1)
    }

    /// Compares values of any types, numbers by their value.
    pub(super) fn equals(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Self::Null, Val::Null) => true,
            (Self::Bool(one), Val::Bool(two)) => one == two,
            (Self::String(one), Val::String(two)) => one == two,
            (Self::Bytes(one), Val::Bytes(two)) => one == two,
            (Self::Type(one), Val::Type(two)) => one == two,
            (one, two) if one.is_map() && two.is_map() => {
                one.len() == two.len()
                    && one.range().into_iter().flatten().all(|key| match (one.get(&key), two.get(&key)) {
                        (Some(one), Some(two)) => one.equals(&two),
                        _ => false,
                    })
            }
            (one, two) => match (one.elements(), two.elements()) {
                (Some(one), Some(two)) => {
                    one.len() == two.len() && one.iter().zip(&two).all(|(one, two)| one.equals(two))
                }
                (None, None) => one.compare_numbers(two) == Some(Ordering::Equal),
                _ => false,
            },
        }
    }

    /// Compares values of an ordered type.
    pub(super) fn compare(&self, other: &Val<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(one), Val::Bool(two)) => Some(one.cmp(two)),
            (Self::String(one), Val::String(two)) => Some(one.as_ref().cmp(two.as_ref())),
            (Self::Bytes(one), Val::Bytes(two)) => Some(one.as_ref().cmp(two.as_ref())),
            (one, two) => one.compare_numbers(two),
        }
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

    /// Returns the name of the type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) | Self::JsonList(_) => "list",
            Self::Map(_) | Self::JsonMap(_) => "map",
            Self::Type(_) => "type",
            Self::Query(_) => "kubernetes.authorization.Authorizer",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() / 10 + 1,
        Value::Array(list) => list.iter().map(weight).sum::<usize>() + 1,
        Value::Object(map) => map.values().map(weight).sum::<usize>() + 1,
        _ => 1,
    }
}
