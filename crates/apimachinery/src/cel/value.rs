//! Values during the evaluation of an expression. They borrow from JSON documents instead of copying them, and a copy of a value takes
//! constant time.

use std::cmp::Ordering;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::authorization::{AccessQuery, AuthorizerDecision};
use super::cost::Cost;
use super::evaluation_error::EvaluationError;

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

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::JsonList(_))
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::JsonMap(_))
    }

    /// Returns an element of a list; `None` behind its end, or if this is not a list.
    pub(super) fn element(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::List(list) => list.get(index).cloned(),
            Self::JsonList(list) => list.get(index).map(Val::json),
            _ => None,
        }
    }

    /// Returns the values that a macro visits: the elements of a list, or the keys of a map.
    pub(super) fn range(&self) -> Option<Box<dyn Iterator<Item = Val<'a>> + '_>> {
        Some(match self {
            Self::List(list) => Box::new(list.iter().cloned()),
            Self::JsonList(list) => Box::new(list.iter().map(Val::json)),
            Self::Map(entries) => Box::new(entries.iter().map(|(key, _)| key.clone())),
            Self::JsonMap(map) => Box::new(map.keys().map(|key| Val::String(RcCow::Borrowed(key)))),
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
            Self::List(list) => list.len(),
            Self::JsonList(list) => list.len(),
            Self::Map(entries) => entries.len(),
            Self::JsonMap(map) => map.len(),
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
            (one, two) if one.is_map() && two.is_map() => one.equals_map(two, cost),
            (one, two) if one.is_list() && two.is_list() => one.equals_list(two, cost),
            (one, two) => Ok(one.compare_numbers(two) == Some(Ordering::Equal)),
        }
    }

    fn equals_map(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        if self.count() != other.count() {
            return Ok(false);
        }
        for key in self.range().into_iter().flatten() {
            let equal = match (self.get(&key, cost)?, other.get(&key, cost)?) {
                (Some(one), Some(two)) => one.equals(&two, cost)?,
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
        for (one, two) in self.range().into_iter().flatten().zip(other.range().into_iter().flatten()) {
            if !one.equals(&two, cost)? {
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
