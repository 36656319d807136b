//! Functions and operators: their types, and the values of those that are no functions of texts or lists.

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::operators::{overflow, unsigned_overflow};
use super::types::Type;
use super::value::{RcCow, Val};
use super::{list_functions, operators, text_functions};
use crate::go;

/// Names of types, which are values too.
pub(super) const TYPES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// Functions without a target.
const GLOBAL: [&str; 11] =
    ["size", "matches", "int", "uint", "double", "string", "bool", "bytes", "dyn", "type", "@in"];
/// Functions that are called on a value: `target.function()`.
const MEMBER: [&str; 26] = [
    "size",
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "find",
    "findAll",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "join",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "substring",
    "trim",
    "reverse",
    "isSorted",
    "sum",
    "min",
    "max",
    "check",
    "allowed",
    "reason",
    "errored",
];
/// Functions of kube-apiserver that this implementation does not have.
pub(super) const UNSUPPORTED: [&str; 44] = [
    "timestamp",
    "duration",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "quantity",
    "isQuantity",
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "ip",
    "isIP",
    "cidr",
    "isCIDR",
    "format",
    "semver",
    "isSemver",
    "isLessThan",
    "isGreaterThan",
    "compareTo",
    "asInteger",
    "asApproximateFloat",
    "flatten",
    "sort",
    "sortBy",
    "slice",
    "distinct",
    "fieldSelector",
    "labelSelector",
    "optMap",
    "orValue",
    "hasValue",
];

pub(super) fn is_known(function: &str, has_target: bool) -> bool {
    if has_target {
        MEMBER.contains(&function)
            || ["group", "resource", "path", "serviceAccount", "error"].contains(&function)
            || ["subresource", "namespace", "name"].contains(&function)
    } else {
        GLOBAL.contains(&function) || operators::is_operator(function)
    }
}

/// Returns the type of a call; `None` if there is no overload for the types.
pub(super) fn signature(function: &str, target: Option<&Type>, arguments: &[Type]) -> Option<Type> {
    use Type::{Bool, Bytes, Dyn, Int, String, Uint};
    let has_size = |of: &Type| matches!(of, Dyn | String | Bytes | Type::List(_) | Type::Map(..));
    let all = |of: &[Type], expected: &[Type]| {
        of.len() == expected.len() && of.iter().zip(expected).all(|(of, expected)| of.fits(expected))
    };
    let Some(target) = target else {
        return match (function, arguments) {
            ("size", [of]) => has_size(of).then_some(Int),
            ("matches", of) => all(of, &[String, String]).then_some(Bool),
            ("int", [of]) => (of.is_number() || of.fits(&String)).then_some(Int),
            ("uint", [of]) => (of.is_number() || of.fits(&String)).then_some(Uint),
            ("double", [of]) => (of.is_number() || of.fits(&String)).then_some(Type::Double),
            ("string", [of]) => (of.is_number() || matches!(of, String | Bytes | Bool)).then_some(String),
            ("bool", [of]) => matches!(of, Dyn | Bool | String).then_some(Bool),
            ("bytes", [of]) => matches!(of, Dyn | Bytes | String).then_some(Bytes),
            ("dyn", [_]) => Some(Dyn),
            ("type", [_]) => Some(Type::Type),
            _ => operators::signature(function, arguments),
        };
    };
    let of_text = target.fits(&String);
    let element = match target {
        Type::List(element) => Some((**element).clone()),
        Dyn => Some(Dyn),
        _ => None,
    };
    match (function, arguments.len()) {
        ("size", 0) => has_size(target).then_some(Int),
        ("startsWith" | "endsWith" | "contains" | "matches", 1) => {
            (of_text && all(arguments, &[String])).then_some(Bool)
        }
        ("find", 1) => (of_text && all(arguments, &[String])).then_some(String),
        ("findAll", 1) => (of_text && all(arguments, &[String])).then_some(Type::List(Box::new(String))),
        ("findAll", 2) => (of_text && all(arguments, &[String, Int])).then_some(Type::List(Box::new(String))),
        ("charAt", 1) => (of_text && all(arguments, &[Int])).then_some(String),
        // Texts and lists have these two functions. A target of type `Dyn` may be either.
        ("indexOf" | "lastIndexOf", 1) if of_text && all(arguments, &[String]) => Some(Int),
        ("indexOf" | "lastIndexOf", 1) => element.filter(|element| arguments[0].fits(element)).map(|_| Int),
        ("indexOf" | "lastIndexOf", 2) => (of_text && all(arguments, &[String, Int])).then_some(Int),
        ("lowerAscii" | "upperAscii" | "trim" | "reverse", 0) => of_text.then_some(String),
        ("replace", 2) => (of_text && all(arguments, &[String, String])).then_some(String),
        ("replace", 3) => (of_text && all(arguments, &[String, String, Int])).then_some(String),
        ("split", 1) => (of_text && all(arguments, &[String])).then_some(Type::List(Box::new(String))),
        ("split", 2) => (of_text && all(arguments, &[String, Int])).then_some(Type::List(Box::new(String))),
        ("substring", 1) => (of_text && all(arguments, &[Int])).then_some(String),
        ("substring", 2) => (of_text && all(arguments, &[Int, Int])).then_some(String),
        ("join", 0) => element.filter(|element| element.fits(&String)).map(|_| String),
        ("join", 1) => {
            element.filter(|element| element.fits(&String) && all(arguments, &[String])).map(|_| String)
        }
        ("isSorted", 0) => element.map(|_| Bool),
        ("sum" | "min" | "max", 0) => element,
        // The functions of decisions, for a target of type `Dyn`; other targets have signatures in `authorization`.
        ("reason" | "error", 0) if *target == Dyn => Some(String),
        ("allowed" | "errored", 0) if *target == Dyn => Some(Bool),
        _ => None,
    }
}

/// 2⁶³ and 2⁶⁴, the first floats above the integers.
const ABOVE_INT: f64 = 9_223_372_036_854_775_808.0;
const ABOVE_UINT: f64 = 18_446_744_073_709_551_616.0;

/// Result of an operation.
pub(super) type Evaluated<'a> = Result<Val<'a>, EvaluationError>;

/// Calls a function without a target.
pub(super) fn global<'a>(function: &str, arguments: Vec<Val<'a>>, cost: &mut Cost) -> Evaluated<'a> {
    if operators::is_operator(function) {
        return operators::apply(function, &arguments, cost);
    }
    let [value] = <[Val<'a>; 1]>::try_from(arguments).map_err(|_| no_overload())?;
    match function {
        "size" => size(&value, cost),
        "dyn" => Ok(value),
        "type" => Ok(Val::Type(value.type_name())),
        _ => converted(function, value, cost),
    }
}

fn size<'a>(value: &Val<'a>, cost: &mut Cost) -> Evaluated<'a> {
    value.size(cost)?.map(|size| Val::Int(integer(size))).ok_or_else(no_overload)
}

/// Converts a value to the type `wanted`.
fn converted<'a>(wanted: &str, value: Val<'a>, cost: &mut Cost) -> Evaluated<'a> {
    match &value {
        Val::String(text) => cost.text(text.len())?,
        Val::Bytes(bytes) => cost.text(bytes.len())?,
        _ => {}
    }
    let from_text = || failed(format!("type conversion error from 'string' to '{wanted}'"));
    Ok(match (wanted, value) {
        ("int", value @ Val::Int(_))
        | ("uint", value @ Val::Uint(_))
        | ("double", value @ Val::Double(_))
        | ("string", value @ Val::String(_))
        | ("bytes", value @ Val::Bytes(_))
        | ("bool", value @ Val::Bool(_)) => value,
        ("int", Val::Uint(value)) => Val::Int(i64::try_from(value).map_err(|_| overflow())?),
        // As in cel-go, the smallest integer is no float's value.
        ("int", Val::Double(value)) if -ABOVE_INT < value && value < ABOVE_INT => Val::Int(value as i64),
        ("int", Val::Double(_)) => return Err(overflow()),
        ("int", Val::String(text)) => Val::Int(text.parse().map_err(|_| from_text())?),
        ("uint", Val::Int(value)) => Val::Uint(u64::try_from(value).map_err(|_| unsigned_overflow())?),
        ("uint", Val::Double(value)) if (0.0..ABOVE_UINT).contains(&value) => Val::Uint(value as u64),
        ("uint", Val::Double(_)) => return Err(unsigned_overflow()),
        ("uint", Val::String(text)) => {
            // Unlike Rust, Go refuses a sign.
            let parsed = text.parse().ok().filter(|_| !text.starts_with('+'));
            Val::Uint(parsed.ok_or_else(from_text)?)
        }
        ("double", Val::Int(value)) => Val::Double(value as f64),
        ("double", Val::Uint(value)) => Val::Double(value as f64),
        ("double", Val::String(text)) => {
            // Unlike Rust, Go refuses a number that is too large; infinity itself is spelled with letters.
            let parsed =
                text.parse().ok().filter(|value: &f64| !value.is_infinite() || !text.contains(digit));
            Val::Double(parsed.ok_or_else(from_text)?)
        }
        ("string", Val::Int(value)) => Val::text(value.to_string()),
        ("string", Val::Uint(value)) => Val::text(value.to_string()),
        ("string", Val::Double(value)) => Val::text(go::float(value)),
        ("string", Val::Bool(value)) => Val::text(value.to_string()),
        ("string", Val::Bytes(bytes)) => {
            let text = std::str::from_utf8(&bytes);
            Val::text(text.map_err(|_| failed("invalid UTF-8 in bytes, cannot convert to string"))?)
        }
        ("bytes", Val::String(text)) => Val::Bytes(RcCow::Owned(text.as_bytes().into())),
        ("bool", Val::String(text)) => Val::Bool(match &*text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(from_text()),
        }),
        _ => return Err(no_overload()),
    })
}

fn digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Calls a function of a target.
pub(super) fn member<'a>(
    function: &str,
    target: &Val<'a>,
    arguments: &[Val<'a>],
    cost: &mut Cost,
) -> Evaluated<'a> {
    if function == "size" && arguments.is_empty() {
        return size(target, cost);
    }
    match target {
        Val::Decision(decision) => match function {
            "allowed" => Ok(Val::Bool(decision.allowed)),
            "reason" => {
                cost.text(decision.reason.len())?;
                Ok(Val::text(&*decision.reason))
            }
            "errored" => Ok(Val::Bool(false)),
            "error" => Ok(Val::text("")),
            _ => Err(no_overload()),
        },
        Val::String(text) => text_functions::call(function, text, arguments, cost),
        list if list.is_list() => list_functions::call(function, list, arguments, cost),
        _ => Err(no_overload()),
    }
}

pub(super) fn integer(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
