//! Calls of functions, and conversions between types. Functions of texts, lists, times and other types have files of their own.
//! `function_table` has the types of all functions.

use std::rc::Rc;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::function_table::ESCAPE_KEY;
use super::operators::{overflow, unsigned_overflow};
use super::value::{RcCow, Val};
use super::{
    authorization, list_functions, named_format, network, operators, optionals, quantities, semantic_version,
    text_format, text_functions, times,
};
use crate::go::{self, Url};

/// Names of types, which are values too.
pub(super) const TYPES: [&str; 15] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional_type",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "net.CIDR",
    "net.IP",
];

/// 2⁶³ and 2⁶⁴, the first floats above the integers.
const ABOVE_INT: f64 = 9_223_372_036_854_775_808.0;
const ABOVE_UINT: f64 = 18_446_744_073_709_551_616.0;

/// Result of an operation.
pub(super) type Evaluated<'a> = Result<Val<'a>, EvaluationError>;

/// Builds the error for values that no overload of a function accepts. cel-go has four forms of it.
pub(super) fn no_overload_of<'v, 'a: 'v>(
    function: &str,
    values: impl IntoIterator<Item = &'v Val<'a>>,
) -> EvaluationError {
    let types: Vec<&str> = values.into_iter().map(Val::type_name).collect();
    match function {
        "startsWith" | "endsWith" | "contains" | "matches" | "find" => no_overload(),
        "size" | "sort" => failed(format!("no such overload: {function}")),
        "flatten" => {
            let (target, arguments) = types.split_first().unwrap_or((&"", &[]));
            failed(format!("no such overload: {target}.flatten({})", arguments.join(", ")))
        }
        _ => failed(format!("no such overload: {function}({})", types.join(", "))),
    }
}

/// Calls a function without a target.
pub(super) fn global<'a>(function: &str, arguments: &[Val<'a>], cost: &mut Cost) -> Evaluated<'a> {
    if operators::is_operator(function) {
        return operators::apply(function, arguments, cost);
    }
    cost.texts(arguments)?;
    let library = quantities::global(function, arguments)
        .or_else(|| network::global(function, arguments))
        .or_else(|| semantic_version::global(function, arguments))
        .or_else(|| named_format::global(function, arguments));
    if let Some(result) = library {
        return result;
    }
    match (function, arguments) {
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [one, two])
            if one.is_list() && two.is_list() =>
        {
            list_functions::compare_sets(function, one, two, cost)
        }
        ("lists.range", [Val::Int(count)]) => list_functions::range(*count, cost),
        ("optional.none", []) => Ok(Val::NONE),
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => optionals::of_non_zero(value),
        ("optional.unwrap", [list]) => optionals::unwrap(function, list),
        ("strings.quote", [Val::String(text)]) => Ok(Val::text(text_format::quoted(text))),
        (ESCAPE_KEY, [Val::String(key)]) => Ok(Val::text(key.replace('~', "~0").replace('/', "~1"))),
        ("isURL", [Val::String(text)]) => Ok(Val::Bool(Url::parse_request(text).is_ok())),
        // `parse_request` refuses relative URLs, and `parse` knows fragments.
        ("url", [Val::String(text)]) => match Url::parse_request(text).and_then(|_| Url::parse(text)) {
            Ok(url) => Ok(Val::Url(Rc::new(url))),
            Err(why) => Err(failed(format!("URL parse error during conversion from string: {why}"))),
        },
        ("size", [value]) => size(value, cost),
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Val::Type(value.type_name())),
        ("timestamp", [value]) => times::timestamp(value),
        ("duration", [value]) => times::duration(value),
        ("int" | "uint" | "double" | "string" | "bytes" | "bool", [value]) => {
            convert(function, value.clone(), cost)
        }
        (_, others) => Err(no_overload_of(function, others)),
    }
}

fn size<'a>(value: &Val<'_>, cost: &mut Cost) -> Evaluated<'a> {
    let size = value.size(cost)?.ok_or_else(|| no_overload_of("size", [value]))?;
    Ok(Val::Int(integer(size)))
}

/// Returns the text that `string()` makes of a value of a builtin type; `None` for other types.
pub(super) fn text_of(value: &Val<'_>) -> Option<Result<String, EvaluationError>> {
    Some(Ok(match value {
        Val::String(text) => text.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => go::float(*value),
        Val::Bool(value) => value.to_string(),
        Val::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes).map(str::to_owned);
            return Some(text.map_err(|_| failed("invalid UTF-8 in bytes, cannot convert to string")));
        }
        value => return times::text_of(value).map(Ok),
    }))
}

/// Converts a value to the type with this name.
fn convert<'a>(to: &str, value: Val<'a>, cost: &mut Cost) -> Evaluated<'a> {
    if let Val::Bytes(bytes) = &value {
        cost.text(bytes.len())?;
    }
    let from_text = || times::no_conversion("string", to);
    Ok(match (to, value) {
        ("int", value @ Val::Int(_))
        | ("uint", value @ Val::Uint(_))
        | ("double", value @ Val::Double(_))
        | ("string", value @ Val::String(_))
        | ("bytes", value @ Val::Bytes(_))
        | ("bool", value @ Val::Bool(_)) => value,
        ("int", value @ (Val::Timestamp(_) | Val::Duration(_))) => {
            Val::Int(times::number_of(&value).unwrap_or_default())
        }
        ("string", Val::Ip(address)) => Val::text(address.to_string()),
        ("string", Val::Cidr(network)) => Val::text(network.text()),
        ("int", Val::Uint(value)) => Val::Int(i64::try_from(value).map_err(|_| overflow())?),
        // As in cel-go, -2⁶³ is out of range, although it is the smallest integer.
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
        ("bytes", Val::String(text)) => Val::Bytes(RcCow::Owned(text.as_bytes().into())),
        ("bool", Val::String(text)) => Val::Bool(match &*text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(from_text()),
        }),
        (to, value) => {
            let text = if to == "string" { text_of(&value) } else { None };
            Val::text(text.ok_or_else(|| no_overload_of(to, [&value]))??)
        }
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
    if times::is_accessor(function) {
        return times::access(function, target, arguments);
    }
    let result = match target {
        Val::Decision(decision) => return authorization::of_decision(function, decision, cost),
        Val::String(text) => text_functions::call(function, text, arguments, cost)?,
        list if list.is_list() => list_functions::call(function, list, arguments, cost)?,
        Val::Optional(value) => optionals::member(function, value.as_deref(), arguments)?,
        Val::Quantity(quantity) => quantities::member(function, *quantity, arguments).transpose()?,
        Val::Semver(version) => semantic_version::member(function, version, arguments).transpose()?,
        Val::Ip(address) => network::of_address(function, *address, arguments).transpose()?,
        Val::Cidr(network) => {
            cost.texts(arguments)?;
            network::of_network(function, *network, arguments).transpose()?
        }
        Val::Url(url) => of_url(function, url, arguments, cost)?,
        Val::Format(format) => match (function, arguments) {
            ("validate", [Val::String(text)]) => Some(named_format::validate(format, text, cost)?),
            _ => None,
        },
        _ => None,
    };
    result.ok_or_else(|| no_overload_of(function, [target].into_iter().chain(arguments)))
}

/// Calls a function of a URL; `None` if there is none of this name.
fn of_url<'a>(
    function: &str,
    url: &Url,
    arguments: &[Val<'a>],
    cost: &mut Cost,
) -> Result<Option<Val<'a>>, EvaluationError> {
    let [] = arguments else { return Ok(None) };
    let text = match function {
        "getScheme" => url.scheme(),
        "getHost" => url.host(),
        "getHostname" => url.host_and_port().0,
        "getPort" => url.host_and_port().1,
        "getEscapedPath" => url.escaped_path(),
        "getQuery" => {
            let mut entries = Vec::new();
            for (name, values) in url.query() {
                for value in &values {
                    cost.text(name.len() + value.len())?;
                }
                let values = values.into_iter().map(Val::text).collect();
                entries.push((Val::text(name), Val::list(values)));
            }
            return Ok(Some(Val::Map(Rc::new(entries))));
        }
        _ => return Ok(None),
    };
    cost.text(text.len())?;
    Ok(Some(Val::text(text)))
}

pub(super) fn integer(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
