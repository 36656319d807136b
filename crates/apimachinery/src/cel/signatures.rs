//! Types of all functions and operators: one table, as cel-go and kube-apiserver declare them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::authorization::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK};
use super::types::{ObjectType, Type};

/// Functions and their overloads. `A`, `B` and `C` stand for any type, which is the same at each place of an overload. `#` stands for each type
/// with an order, and `%` for each type of numbers. A type before `.(` is that of the target.
const FUNCTIONS: &[(&str, &[&str])] = &[
    // Operators.
    ("_?_:_", &["(bool, A, A) -> A"]),
    ("_==_", &["(A, A) -> bool"]),
    ("_!=_", &["(A, A) -> bool"]),
    ("_<_", ORDER),
    ("_<=_", ORDER),
    ("_>_", ORDER),
    ("_>=_", ORDER),
    ("@in", &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"]),
    (
        "_+_",
        &[
            "(%, %) -> %",
            "(string, string) -> string",
            "(bytes, bytes) -> bytes",
            "(list(A), list(A)) -> list(A)",
            "(duration, duration) -> duration",
            "(duration, timestamp) -> timestamp",
            "(timestamp, duration) -> timestamp",
        ],
    ),
    (
        "_-_",
        &[
            "(%, %) -> %",
            "(duration, duration) -> duration",
            "(timestamp, duration) -> timestamp",
            "(timestamp, timestamp) -> duration",
        ],
    ),
    ("_*_", &["(%, %) -> %"]),
    ("_/_", &["(%, %) -> %"]),
    ("_%_", &["(int, int) -> int", "(uint, uint) -> uint"]),
    ("!_", &["(bool) -> bool"]),
    ("-_", &["(int) -> int", "(double) -> double"]),
    (
        "_[_]",
        &[
            "(list(A), int) -> A",
            "(map(A, B), A) -> B",
            "(optional_type(list(A)), int) -> optional_type(A)",
            "(optional_type(map(A, B)), A) -> optional_type(B)",
        ],
    ),
    (
        "_[?_]",
        &[
            "(list(A), int) -> optional_type(A)",
            "(map(A, B), A) -> optional_type(B)",
            "(optional_type(list(A)), int) -> optional_type(A)",
            "(optional_type(map(A, B)), A) -> optional_type(B)",
        ],
    ),
    // Conversions.
    ("bool", &["(bool) -> bool", "(string) -> bool"]),
    ("bytes", &["(bytes) -> bytes", "(string) -> bytes"]),
    ("double", &["(%) -> double", "(string) -> double"]),
    ("duration", &["(duration) -> duration", "(string) -> duration"]),
    ("dyn", &["(A) -> dyn"]),
    ("int", &["(%) -> int", "(string) -> int", "(duration) -> int", "(timestamp) -> int"]),
    ("string", &["(#) -> string", "(net.IP) -> string", "(net.CIDR) -> string"]),
    ("timestamp", &["(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp"]),
    ("type", &["(A) -> type"]),
    ("uint", &["(%) -> uint", "(string) -> uint"]),
    // Texts.
    ("charAt", &["string.(int) -> string"]),
    ("contains", CONTAINS),
    ("containsCIDR", &["net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool"]),
    ("containsIP", &["net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool"]),
    ("endsWith", CONTAINS),
    ("find", &["string.(string) -> string"]),
    ("findAll", &["string.(string) -> list(string)", "string.(string, int) -> list(string)"]),
    ("format", &["string.(list(dyn)) -> string"]),
    ("indexOf", INDEX),
    ("join", &["list(string).() -> string", "list(string).(string) -> string"]),
    ("lastIndexOf", INDEX),
    ("lowerAscii", &["string.() -> string"]),
    ("matches", &["(string, string) -> bool", "string.(string) -> bool"]),
    ("replace", &["string.(string, string) -> string", "string.(string, string, int) -> string"]),
    ("split", &["string.(string) -> list(string)", "string.(string, int) -> list(string)"]),
    ("startsWith", CONTAINS),
    ("strings.quote", &["(string) -> string"]),
    ("substring", &["string.(int) -> string", "string.(int, int) -> string"]),
    ("trim", &["string.() -> string"]),
    ("upperAscii", &["string.() -> string"]),
    // Lists, maps and sets.
    ("distinct", &["list(A).() -> list(A)"]),
    ("first", &["list(A).() -> optional_type(A)"]),
    ("flatten", &["list(list(A)).() -> list(A)", "list(dyn).(int) -> list(dyn)"]),
    ("isSorted", &["list(#).() -> bool"]),
    ("last", &["list(A).() -> optional_type(A)"]),
    ("lists.range", &["(int) -> list(int)"]),
    ("max", &["list(#).() -> #"]),
    ("min", &["list(#).() -> #"]),
    // For lists only: kube-apiserver leaves out the overload for texts.
    ("reverse", &["list(A).() -> list(A)"]),
    ("sets.contains", SETS),
    ("sets.equivalent", SETS),
    ("sets.intersects", SETS),
    (
        "size",
        &[
            "(string) -> int",
            "(bytes) -> int",
            "(list(A)) -> int",
            "(map(A, B)) -> int",
            "string.() -> int",
            "bytes.() -> int",
            "list(A).() -> int",
            "map(A, B).() -> int",
        ],
    ),
    ("slice", &["list(A).(int, int) -> list(A)"]),
    ("sort", &["list(#).() -> list(#)"]),
    // The macro `sortBy` calls it.
    ("@sortByAssociatedKeys", &["list(A).(list(#)) -> list(A)"]),
    ("sum", &["list(%).() -> %", "list(duration).() -> duration"]),
    // Optional values.
    ("hasValue", &["optional_type(A).() -> bool"]),
    ("optional.none", &["() -> optional_type(A)"]),
    ("optional.of", &["(A) -> optional_type(A)"]),
    ("optional.ofNonZeroValue", &["(A) -> optional_type(A)"]),
    ("optional.unwrap", &["(list(optional_type(A))) -> list(A)"]),
    ("or", &["optional_type(A).(optional_type(A)) -> optional_type(A)"]),
    ("orValue", &["optional_type(A).(A) -> A"]),
    ("unwrapOpt", &["list(optional_type(A)).() -> list(A)"]),
    ("value", &["optional_type(A).() -> A"]),
    // Times.
    ("getDate", OF_TIME),
    ("getDayOfMonth", OF_TIME),
    ("getDayOfWeek", OF_TIME),
    ("getDayOfYear", OF_TIME),
    ("getFullYear", OF_TIME),
    ("getHours", OF_TIME_OR_DURATION),
    ("getMilliseconds", OF_TIME_OR_DURATION),
    ("getMinutes", OF_TIME_OR_DURATION),
    ("getMonth", OF_TIME),
    ("getSeconds", OF_TIME_OR_DURATION),
    // Quantities and versions.
    ("add", QUANTITY_SUM),
    ("asApproximateFloat", &["kubernetes.Quantity.() -> double"]),
    ("asInteger", &["kubernetes.Quantity.() -> int"]),
    (
        "compareTo",
        &["kubernetes.Quantity.(kubernetes.Quantity) -> int", "kubernetes.Semver.(kubernetes.Semver) -> int"],
    ),
    ("isGreaterThan", COMPARED),
    ("isInteger", &["kubernetes.Quantity.() -> bool"]),
    ("isLessThan", COMPARED),
    ("isQuantity", &["(string) -> bool"]),
    ("isSemver", &["(string) -> bool", "(string, bool) -> bool"]),
    ("major", &["kubernetes.Semver.() -> int"]),
    ("minor", &["kubernetes.Semver.() -> int"]),
    ("patch", &["kubernetes.Semver.() -> int"]),
    ("quantity", &["(string) -> kubernetes.Quantity"]),
    ("semver", &["(string) -> kubernetes.Semver", "(string, bool) -> kubernetes.Semver"]),
    ("sign", &["(kubernetes.Quantity) -> int"]),
    ("sub", QUANTITY_SUM),
    // Addresses and URLs.
    ("cidr", &["(string) -> net.CIDR"]),
    ("family", &["net.IP.() -> int"]),
    ("getEscapedPath", OF_URL),
    ("getHost", OF_URL),
    ("getHostname", OF_URL),
    ("getPort", OF_URL),
    ("getQuery", &["kubernetes.URL.() -> map(string, list(string))"]),
    ("getScheme", OF_URL),
    ("ip", &["(string) -> net.IP", "net.CIDR.() -> net.IP"]),
    ("ip.isCanonical", &["(string) -> bool"]),
    ("isCIDR", &["(string) -> bool"]),
    ("isGlobalUnicast", OF_IP),
    ("isIP", &["(string) -> bool"]),
    ("isLinkLocalMulticast", OF_IP),
    ("isLinkLocalUnicast", OF_IP),
    ("isLoopback", OF_IP),
    ("isURL", &["(string) -> bool"]),
    ("isUnspecified", OF_IP),
    ("masked", &["net.CIDR.() -> net.CIDR"]),
    ("prefixLength", &["net.CIDR.() -> int"]),
    ("url", &["(string) -> kubernetes.URL"]),
    // Formats.
    ("format.byte", FORMAT),
    ("format.date", FORMAT),
    ("format.datetime", FORMAT),
    ("format.dns1035Label", FORMAT),
    ("format.dns1035LabelPrefix", FORMAT),
    ("format.dns1123Label", FORMAT),
    ("format.dns1123LabelPrefix", FORMAT),
    ("format.dns1123Subdomain", FORMAT),
    ("format.dns1123SubdomainPrefix", FORMAT),
    ("format.labelValue", FORMAT),
    ("format.named", &["(string) -> optional_type(kubernetes.NamedFormat)"]),
    ("format.qualifiedName", FORMAT),
    ("format.uri", FORMAT),
    ("format.uuid", FORMAT),
    ("validate", &["kubernetes.NamedFormat.(string) -> optional_type(list(string))"]),
    // The authorizer.
    ("allowed", &["kubernetes.authorization.Decision.() -> bool"]),
    (
        "check",
        &[
            "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
        ],
    ),
    ("error", &["kubernetes.authorization.Decision.() -> string"]),
    ("errored", &["kubernetes.authorization.Decision.() -> bool"]),
    ("fieldSelector", OF_RESOURCE),
    ("group", &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck"]),
    ("labelSelector", OF_RESOURCE),
    ("name", OF_RESOURCE),
    ("namespace", OF_RESOURCE),
    ("path", &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck"]),
    ("reason", &["kubernetes.authorization.Decision.() -> string"]),
    ("resource", &["kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    (
        "serviceAccount",
        &["kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer"],
    ),
    ("subresource", OF_RESOURCE),
];
const ORDER: &[&str] = &[
    "(#, #) -> bool",
    "(int, uint) -> bool",
    "(int, double) -> bool",
    "(uint, int) -> bool",
    "(uint, double) -> bool",
    "(double, int) -> bool",
    "(double, uint) -> bool",
];
const CONTAINS: &[&str] = &["string.(string) -> bool"];
const INDEX: &[&str] = &["string.(string) -> int", "string.(string, int) -> int", "list(A).(A) -> int"];
const SETS: &[&str] = &["(list(A), list(A)) -> bool"];
const OF_TIME: &[&str] = &["timestamp.() -> int", "timestamp.(string) -> int"];
const OF_TIME_OR_DURATION: &[&str] =
    &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"];
const QUANTITY_SUM: &[&str] = &[
    "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
    "kubernetes.Quantity.(int) -> kubernetes.Quantity",
];
const COMPARED: &[&str] =
    &["kubernetes.Quantity.(kubernetes.Quantity) -> bool", "kubernetes.Semver.(kubernetes.Semver) -> bool"];
const OF_URL: &[&str] = &["kubernetes.URL.() -> string"];
const OF_IP: &[&str] = &["net.IP.() -> bool"];
const FORMAT: &[&str] = &["() -> kubernetes.NamedFormat"];
const OF_RESOURCE: &[&str] =
    &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"];
/// Types with an order.
const ORDERED: &[&str] = &["bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp"];
const NUMBERS: &[&str] = &["int", "uint", "double"];

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
