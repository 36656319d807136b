//! Types of calls, by the overloads of functions and operators in `function_table`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::authorization::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK};
use super::function_table::{ESCAPE_KEY, FUNCTIONS, NUMBERS, ORDERED};
use super::types::{ObjectType, Type};

/// Types of libraries.
static OBJECTS: [&ObjectType; 11] = [
    &AUTHORIZER,
    &PATH_CHECK,
    &GROUP_CHECK,
    &RESOURCE_CHECK,
    &DECISION,
    &IP,
    &CIDR,
    &QUANTITY,
    &SEMVER,
    &URL,
    &NAMED_FORMAT,
];
static IP: ObjectType = ObjectType::opaque("net.IP");
static CIDR: ObjectType = ObjectType::opaque("net.CIDR");
pub(super) static QUANTITY: ObjectType = ObjectType::opaque("kubernetes.Quantity");
static SEMVER: ObjectType = ObjectType::opaque("kubernetes.Semver");
static URL: ObjectType = ObjectType::opaque("kubernetes.URL");
static NAMED_FORMAT: ObjectType = ObjectType::opaque("kubernetes.NamedFormat");

/// Whether cel-go refuses the selection of a field of this type with an error of its own.
pub(super) fn refuses_selection(of: &ObjectType) -> bool {
    *of == IP || *of == CIDR
}

/// Whether a type belongs to a library of kube-apiserver.
pub(super) fn is_of_library(of: &ObjectType) -> bool {
    OBJECTS.into_iter().any(|known| known == of)
}

static TABLE: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    FUNCTIONS
        .iter()
        .map(|(name, texts)| (*name, texts.iter().flat_map(|text| Overload::each(text)).collect()))
        .collect()
});

/// Result of a search for the overload of a call.
#[derive(Debug)]
pub(super) enum Resolution {
    /// There is no function of this name.
    Undeclared,
    /// No overload accepts values of these types.
    NoOverload,
    /// Type of the result.
    Of(Type),
}

/// Whether this is the whole name of a function of a namespace, such as `sets.contains`.
pub(super) fn is_namespaced(name: &str) -> bool {
    name == ESCAPE_KEY || (name.contains('.') && TABLE.contains_key(name))
}

/// Whether values of a type can be sorted.
pub(super) fn is_ordered(of: &Type) -> bool {
    matches!(of, Type::Dyn | Type::Open) || ORDERED.contains(&&*of.to_string())
}

/// Finds the type of a call.
pub(super) fn resolve(function: &str, target: Option<&Type>, arguments: &[Type]) -> Resolution {
    let Some(overloads) = TABLE.get(function) else { return Resolution::Undeclared };
    let mut found: Option<Type> = None;
    for overload in overloads {
        let Some(of) = overload.result(target, arguments) else { continue };
        found = match found {
            // Only the evaluation shows which of several overloads is called.
            Some(known) if known != of => Some(Type::Dyn),
            _ => Some(of),
        };
    }
    found.map_or(Resolution::NoOverload, Resolution::Of)
}

/// Returns the parameters of the overloads that accept values of these types, as the table has them: `string.(string)`.
pub(super) fn accepting(function: &str, target: Option<&Type>, arguments: &[Type]) -> Vec<&'static str> {
    let overloads = TABLE.get(function).into_iter().flatten();
    let accepting = overloads.filter(|overload| overload.result(target, arguments).is_some());
    accepting.map(|overload| overload.call.as_str()).collect()
}

#[derive(Debug)]
struct Overload {
    /// Text of the target and the parameters.
    call: String,
    target: Option<TypePattern>,
    parameters: Vec<TypePattern>,
    result: TypePattern,
}

/// A type in which letters may stand for any type.
#[derive(Debug)]
enum TypePattern {
    /// Number of the letter.
    Any(usize),
    List(Box<TypePattern>),
    Map(Box<TypePattern>, Box<TypePattern>),
    Optional(Box<TypePattern>),
    Known(Type),
}

/// Types for which the letters stand.
type TypeBindings = [Option<Type>; 3];

impl Overload {
    /// Reads an overload of the table, for each type that its sign stands for.
    fn each(text: &str) -> Vec<Self> {
        let (sign, types) = match text {
            text if text.contains('#') => ("#", ORDERED),
            text if text.contains('%') => ("%", NUMBERS),
            _ => return vec![Self::read(text)],
        };
        types.iter().map(|of| Self::read(&text.replace(sign, of))).collect()
    }

    fn read(text: &str) -> Self {
        let (call, result) = text.split_once(" -> ").expect("a result in each row of the table");
        let (target, parameters) = match call.split_once(".(") {
            Some((target, parameters)) => (Some(TypePattern::read(target)), parameters),
            None => (None, &call[1..]),
        };
        let parameters = parameters.strip_suffix(')').expect("a closing bracket in each row of the table");
        Self {
            call: call.to_owned(),
            target,
            parameters: parts(parameters).into_iter().map(TypePattern::read).collect(),
            result: TypePattern::read(result),
        }
    }

    /// Returns the type of a call; `None` if the overload does not accept the types.
    fn result(&self, target: Option<&Type>, arguments: &[Type]) -> Option<Type> {
        let mut bindings = TypeBindings::default();
        let fits_target = match (&self.target, target) {
            (Some(pattern), Some(target)) => pattern.accepts(target, &mut bindings),
            (None, None) => true,
            _ => false,
        };
        let fits = fits_target
            && self.parameters.len() == arguments.len()
            && self.parameters.iter().zip(arguments).all(|(pattern, of)| pattern.accepts(of, &mut bindings));
        fits.then(|| self.result.bound(&bindings))
    }
}

impl TypePattern {
    fn read(text: &str) -> Self {
        let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        let boxed = |text: &str| Box::new(Self::read(text));
        if let Some(element) = inner("list") {
            return Self::List(boxed(element));
        }
        if let Some(value) = inner("optional_type") {
            return Self::Optional(boxed(value));
        }
        if let Some([key, value]) = inner("map").map(parts).as_deref() {
            return Self::Map(boxed(key), boxed(value));
        }
        Self::Known(match text {
            "A" => return Self::Any(0),
            "B" => return Self::Any(1),
            "C" => return Self::Any(2),
            "dyn" => Type::Dyn,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "type" => Type::Type,
            name => Type::Object(
                OBJECTS.into_iter().find(|of| of.name == name).expect("known types in the table"),
            ),
        })
    }

    fn accepts(&self, of: &Type, bindings: &mut TypeBindings) -> bool {
        match (self, of) {
            (Self::Any(letter), of) => {
                let bound = match &bindings[*letter] {
                    None => Some(of.clone()),
                    Some(known) => known.unified(of),
                };
                let fits = bound.is_some();
                if fits {
                    bindings[*letter] = bound;
                }
                fits
            }
            (Self::Known(expected), of) => of.fits(expected),
            (_, Type::Dyn | Type::Open) => true,
            (Self::List(element), Type::List(of)) => element.accepts(of, bindings),
            (Self::Map(key, value), Type::Map(of_key, of_value)) => {
                key.accepts(of_key, bindings) && value.accepts(of_value, bindings)
            }
            (Self::Optional(value), Type::Optional(of)) => value.accepts(of, bindings),
            // As in cel-go, `null` is a value of each opaque type.
            (Self::Optional(_), Type::Null) => true,
            _ => false,
        }
    }

    fn bound(&self, bindings: &TypeBindings) -> Type {
        match self {
            Self::Any(letter) => bindings[*letter].clone().unwrap_or(Type::Open),
            Self::Known(of) => of.clone(),
            Self::List(element) => Type::List(Box::new(element.bound(bindings))),
            Self::Map(key, value) => {
                Type::Map(Box::new(key.bound(bindings)), Box::new(value.bound(bindings)))
            }
            Self::Optional(value) => Type::Optional(Box::new(value.bound(bindings))),
        }
    }
}

/// Splits a list of types at the commas outside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, sign) in text.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table_can_be_read() {
        assert_eq!(TABLE.len(), FUNCTIONS.len(), "two rows for one function");
        assert!(TABLE.values().all(|overloads| !overloads.is_empty()));
    }

    #[test]
    fn several_overloads_accept_unknown_types() {
        let list = Type::List(Box::new(Type::String));
        assert_eq!(accepting("sort", Some(&list), &[]), ["list(string).()"]);
        assert_eq!(accepting("_<_", None, &[Type::Dyn, Type::String]), ["(string, string)"]);
        let of_index = accepting("_[_]", None, &[Type::Dyn, Type::Int]);
        assert_eq!(of_index[..2], ["(list(A), int)", "(map(A, B), A)"]);
        assert_eq!(of_index.len(), 4);
        assert!(accepting("_<_", None, &[list.clone(), list]).is_empty());
    }

    #[test]
    fn letters_stand_for_the_same_type() {
        let list = |of: Type| Type::List(Box::new(of));
        let of = |function: &str, target: Option<&Type>, arguments: &[Type]| match resolve(
            function, target, arguments,
        ) {
            Resolution::Of(of) => of.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(of("_+_", None, &[list(Type::Int), list(Type::Int)]), "list(int)");
        assert_eq!(of("_+_", None, &[list(Type::Int), list(Type::String)]), "NoOverload");
        assert_eq!(of("_+_", None, &[Type::Dyn, Type::Int]), "int");
        assert_eq!(of("_+_", None, &[Type::Dyn, Type::Dyn]), "dyn");
        assert_eq!(of("min", Some(&list(Type::Timestamp)), &[]), "timestamp");
        assert_eq!(of("_+_", None, &[list(Type::Open), list(Type::Int)]), "list(int)");
        assert_eq!(of("nosuch", None, &[]), "Undeclared");
        let optional = Type::Optional(Box::new(list(Type::Int)));
        assert_eq!(of("_[_]", None, &[optional.clone(), Type::Int]), "optional_type(int)");
        assert_eq!(of("orValue", Some(&optional), &[Type::Int]), "NoOverload");
    }
}
