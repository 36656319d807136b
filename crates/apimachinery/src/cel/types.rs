//! Types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Known only when the expression is evaluated.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// Type of the elements.
    List(Box<Type>),
    /// Types of keys and values.
    Map(Box<Type>, Box<Type>),
    /// Objects with known fields.
    Object(&'static ObjectType),
    /// Object with this name, whose fields the expressions of a client define.
    Composed(&'static str, Arc<BTreeMap<String, Type>>),
    /// Objects that an expression constructs, by the name of their type.
    Message(Box<str>),
    /// Type of a type.
    Type,
}

/// Name and fields of an object type.
#[derive(Debug)]
pub struct ObjectType {
    /// Name in messages.
    pub name: &'static str,
    /// Returns the type of a field; `None` if there is no such field.
    pub field: fn(&str) -> Option<Type>,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    /// Whether a value of this type can be one of the other type, and if so the type of both.
    pub(super) fn unified(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => Some(Self::Dyn),
            (Self::List(one), Self::List(two)) => Some(Self::List(Box::new(one.unified(two)?))),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                Some(Self::Map(Box::new(key.unified(other_key)?), Box::new(value.unified(other_value)?)))
            }
            (Self::Null, object @ Self::Object(_)) | (object @ Self::Object(_), Self::Null) => {
                Some(object.clone())
            }
            (one, two) => (one == two).then(|| one.clone()),
        }
    }

    /// Whether a value of this type may stand where one of `expected` is needed.
    pub(super) fn fits(&self, expected: &Self) -> bool {
        self.unified(expected).is_some()
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Dyn | Self::Int | Self::Uint | Self::Double)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(object) => f.write_str(object.name),
            Self::Composed(name, _) => f.write_str(name),
            Self::Message(name) => f.write_str(name),
            Self::Type => f.write_str("type"),
        }
    }
}
