//! Types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::signatures::QUANTITY;

/// Type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Known only when the expression is evaluated.
    Dyn,
    /// Not determined yet, such as the type of the elements of `[]`: it becomes the type that it meets. No result has it.
    Open,
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
    /// List with elements of this type.
    List(Box<Type>),
    /// Map with keys and values of these types.
    Map(Box<Type>, Box<Type>),
    /// Objects with known fields.
    Object(&'static ObjectType),
    /// Object with this name and with fields that the expressions or the schema of a client define.
    Composed(Arc<str>, Arc<BTreeMap<String, Type>>),
    /// Objects that an expression constructs, by the name of their type.
    Message(Box<str>),
    /// Type of a type.
    Type,
    /// Span of time.
    Duration,
    /// Point in time.
    Timestamp,
    /// Value that may be absent.
    Optional(Box<Type>),
}

/// Name and fields of an object type.
#[derive(Debug)]
pub struct ObjectType {
    /// Name in messages.
    pub name: &'static str,
    /// Returns the type of a field; `None` if there is no such field.
    pub field: fn(&str) -> Option<Type>,
}

impl ObjectType {
    /// Creates a type without fields, of which values have functions only.
    pub(super) const fn opaque(name: &'static str) -> Self {
        Self { name, field: |_| None }
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    /// Quantities, such as `quantity('500m')`.
    pub const QUANTITY: Self = Self::Object(&QUANTITY);

    /// Returns the common type of two types whose values can stand for each other; `None` if they cannot.
    pub(super) fn unified(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Open, other) | (other, Self::Open) => Some(other.clone()),
            (Self::Dyn, _) | (_, Self::Dyn) => Some(Self::Dyn),
            (Self::List(one), Self::List(two)) => Some(Self::List(Box::new(one.unified(two)?))),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                Some(Self::Map(Box::new(key.unified(other_key)?), Box::new(value.unified(other_value)?)))
            }
            (Self::Optional(one), Self::Optional(two)) => Some(Self::Optional(Box::new(one.unified(two)?))),
            // Types with one name are one type.
            (Self::Composed(one, _), Self::Composed(two, _)) => (one == two).then(|| self.clone()),
            (Self::Null, other) | (other, Self::Null) if other.is_nullable() => Some(other.clone()),
            (one, two) => (one == two).then(|| one.clone()),
        }
    }

    /// Whether a value of this type may stand where one of `expected` is needed.
    pub(super) fn fits(&self, expected: &Self) -> bool {
        self.unified(expected).is_some()
    }

    /// Returns the type of a result, in which nothing is left to determine.
    pub(super) fn closed(self) -> Self {
        let closed = |of: Box<Self>| Box::new(of.closed());
        match self {
            Self::Open => Self::Dyn,
            Self::List(element) => Self::List(closed(element)),
            Self::Map(key, value) => Self::Map(closed(key), closed(value)),
            Self::Optional(value) => Self::Optional(closed(value)),
            other => other,
        }
    }

    /// Returns the name that a value of the type shows, without the types of its parts.
    pub(super) fn runtime_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether `null` is a value of the type, as cel-go defines for objects, times and types of libraries.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Object(_)
                | Self::Composed(..)
                | Self::Message(_)
                | Self::Duration
                | Self::Timestamp
                | Self::Optional(_)
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Open => f.write_str("dyn"),
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
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
        }
    }
}
