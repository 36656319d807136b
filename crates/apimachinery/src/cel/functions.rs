//! Functions and operators: their types, and their values.

use std::borrow::Cow;
use std::rc::Rc;

use regex::RegexBuilder;

use super::eval::{Cost, EvaluationError, no_overload};
use super::operators;
use super::types::Type;
use super::value::Val;

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
/// Maximum size of a compiled regular expression, in bytes.
const REGEX_SIZE: usize = 1 << 20;

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

/// Result of an operation.
pub(super) type Evaluated<'a> = Result<Val<'a>, EvaluationError>;

/// Calls a function without a target.
pub(super) fn global<'a>(function: &str, arguments: Vec<Val<'a>>, cost: &mut Cost<'_>) -> Evaluated<'a> {
    if operators::is_operator(function) {
        return operators::apply(function, &arguments, cost);
    }
    if let ("matches", [text, pattern @ ..]) = (function, &*arguments)
        && pattern.len() == 1
    {
        return member("matches", text, pattern, cost);
    }
    let [value] = <[Val<'a>; 1]>::try_from(arguments).map_err(|_| no_overload())?;
    cost.spend(value.weight())?;
    let range = || EvaluationError::Failed("range error converting a number".to_owned());
    let number = |text: &str| EvaluationError::Failed(format!("type conversion error from '{text}'"));
    Ok(match (function, value) {
        ("size", value) => Val::Int(integer(value.len().ok_or_else(no_overload)?)),
        ("dyn", value) => value,
        ("type", value) => Val::Type(value.type_name()),
        ("int", value @ Val::Int(_))
        | ("uint", value @ Val::Uint(_))
        | ("double", value @ Val::Double(_)) => value,
        ("string", value @ Val::String(_))
        | ("bytes", value @ Val::Bytes(_))
        | ("bool", value @ Val::Bool(_)) => value,
        ("int", Val::Uint(value)) => Val::Int(i64::try_from(value).map_err(|_| range())?),
        ("int", Val::Double(value)) if value.abs() < 9.2e18 => Val::Int(value as i64),
        ("int", Val::String(text)) => Val::Int(text.parse().map_err(|_| number(&text))?),
        ("uint", Val::Int(value)) => Val::Uint(u64::try_from(value).map_err(|_| range())?),
        ("uint", Val::Double(value)) if (0.0..1.8e19).contains(&value) => Val::Uint(value as u64),
        ("uint", Val::String(text)) => Val::Uint(text.parse().map_err(|_| number(&text))?),
        ("int" | "uint", Val::Double(_)) => return Err(range()),
        ("double", Val::Int(value)) => Val::Double(value as f64),
        ("double", Val::Uint(value)) => Val::Double(value as f64),
        ("double", Val::String(text)) => Val::Double(text.parse().map_err(|_| number(&text))?),
        ("string", Val::Int(value)) => Val::text(value.to_string()),
        ("string", Val::Uint(value)) => Val::text(value.to_string()),
        ("string", Val::Double(value)) => Val::text(value.to_string()),
        ("string", Val::Bool(value)) => Val::text(value.to_string()),
        ("string", Val::Bytes(bytes)) => {
            let text = std::str::from_utf8(&bytes);
            Val::text(text.map_err(|_| EvaluationError::Failed("invalid UTF-8".to_owned()))?)
        }
        ("bytes", Val::String(text)) => Val::Bytes(Cow::Owned(text.as_bytes().to_vec())),
        ("bool", Val::String(text)) => Val::Bool(match &*text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            other => return Err(number(other)),
        }),
        _ => return Err(no_overload()),
    })
}

/// Calls a function of a target.
pub(super) fn member<'a>(
    function: &str,
    target: &Val<'a>,
    arguments: &[Val<'a>],
    cost: &mut Cost<'_>,
) -> Evaluated<'a> {
    cost.spend(arguments.iter().map(Val::weight).sum::<u64>() + target.weight())?;
    let failed = |why: String| EvaluationError::Failed(why);
    if function == "size" && arguments.is_empty() {
        return target.len().map(|len| Val::Int(integer(len))).ok_or_else(no_overload);
    }
    if let Val::Decision(decision) = target {
        return match function {
            "allowed" => Ok(Val::Bool(decision.allowed)),
            "reason" => Ok(Val::text(decision.reason.clone())),
            "errored" => Ok(Val::Bool(false)),
            "error" => Ok(Val::text("")),
            _ => Err(no_overload()),
        };
    }
    let Val::String(text) = target else { return of_list(function, target, arguments) };
    let at = |index: i64| -> Result<usize, EvaluationError> {
        let count = text.chars().count();
        let index = usize::try_from(index).ok().filter(|index| *index <= count);
        index.ok_or_else(|| failed("index out of range".to_owned()))
    };
    Ok(match (function, arguments) {
        ("startsWith", [Val::String(part)]) => Val::Bool(text.starts_with(&**part)),
        ("endsWith", [Val::String(part)]) => Val::Bool(text.ends_with(&**part)),
        ("contains", [Val::String(part)]) => Val::Bool(text.contains(&**part)),
        ("matches", [Val::String(pattern)]) => Val::Bool(regex(pattern)?.is_match(text)),
        ("find", [Val::String(pattern)]) => {
            Val::text(regex(pattern)?.find(text).map_or("", |found| found.as_str()))
        }
        ("findAll", [Val::String(pattern), rest @ ..]) => {
            // As in Go, a negative limit is none; the same applies to `replace` and `split`.
            let limit = match rest {
                [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let regex = regex(pattern)?;
            let found = regex.find_iter(text).take(limit).map(|found| Val::text(found.as_str()));
            Val::List(Rc::new(found.collect()))
        }
        ("charAt", [Val::Int(index)]) => {
            Val::text(text.chars().skip(at(*index)?).take(1).collect::<String>())
        }
        ("indexOf", [Val::String(part)]) => {
            Val::Int(text.find(&**part).map_or(-1, |at| characters(text, at)))
        }
        ("indexOf", [Val::String(part), Val::Int(from)]) => {
            let start = offset(text, at(*from)?);
            Val::Int(text[start..].find(&**part).map_or(-1, |at| characters(text, start + at)))
        }
        ("lastIndexOf", [Val::String(part)]) => {
            Val::Int(text.rfind(&**part).map_or(-1, |at| characters(text, at)))
        }
        ("lastIndexOf", [Val::String(part), Val::Int(until)]) => {
            // The last match may begin at the given position, so it may end behind it. An end inside of a character is moved back.
            let end = (offset(text, at(*until)?) + part.len()).min(text.len());
            let head = (0..=end).rev().find_map(|end| text.get(..end)).unwrap_or_default();
            Val::Int(head.rfind(&**part).map_or(-1, |at| characters(text, at)))
        }
        ("lowerAscii", []) => Val::text(text.to_ascii_lowercase()),
        ("upperAscii", []) => Val::text(text.to_ascii_uppercase()),
        ("trim", []) => Val::text(text.trim()),
        ("reverse", []) => Val::text(text.chars().rev().collect::<String>()),
        ("replace", [Val::String(old), Val::String(new), rest @ ..]) => {
            let limit = match rest {
                [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            // Only the weight of text and arguments is paid so far, and the result may be much longer.
            let found = text.matches(&**old).count().min(limit);
            let grown = u64::try_from(found.saturating_mul(new.len()) / 10).unwrap_or(u64::MAX);
            cost.spend(grown)?;
            Val::text(text.replacen(&**old, new, limit))
        }
        ("split", [Val::String(separator), rest @ ..]) => {
            let limit = match rest {
                [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            // As in Go's `SplitN`, zero parts are an empty list.
            let parts: Vec<Val<'a>> = if limit == 0 {
                Vec::new()
            } else if separator.is_empty() {
                text.chars().map(|c| Val::text(c.to_string())).collect()
            } else {
                text.splitn(limit, &**separator).map(Val::text).collect()
            };
            Val::List(Rc::new(parts))
        }
        ("substring", [Val::Int(from)]) => Val::text(&text[offset(text, at(*from)?)..]),
        ("substring", [Val::Int(from), Val::Int(until)]) => {
            let (from, until) = (at(*from)?, at(*until)?);
            if from > until {
                return Err(failed("invalid substring range".to_owned()));
            }
            Val::text(&text[offset(text, from)..offset(text, until)])
        }
        _ => return Err(no_overload()),
    })
}

fn of_list<'a>(function: &str, target: &Val<'a>, arguments: &[Val<'a>]) -> Evaluated<'a> {
    let elements = target.elements().ok_or_else(no_overload)?;
    let place = |at: Option<usize>| Val::Int(at.map_or(-1, integer));
    Ok(match (function, arguments) {
        ("indexOf", [wanted]) => place(elements.iter().position(|element| element.equals(wanted))),
        ("lastIndexOf", [wanted]) => place(elements.iter().rposition(|element| element.equals(wanted))),
        ("isSorted", []) => {
            let orders = elements.windows(2).map(|pair| pair[0].compare(&pair[1]));
            let orders: Option<Vec<_>> = orders.collect();
            Val::Bool(orders.ok_or_else(no_overload)?.into_iter().all(std::cmp::Ordering::is_le))
        }
        ("min" | "max", []) => {
            let wanted =
                if function == "min" { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
            let mut elements = elements.into_iter();
            let empty = || EvaluationError::Failed(format!("{function} called on empty list"));
            let mut best = elements.next().ok_or_else(empty)?;
            for element in elements {
                if element.compare(&best).ok_or_else(no_overload)? == wanted {
                    best = element;
                }
            }
            best
        }
        ("sum", []) => {
            let mut elements = elements.into_iter();
            let first = elements.next().unwrap_or(Val::Int(0));
            elements.try_fold(first, |sum, element| operators::add_numbers(&sum, &element))?
        }
        ("join", rest) => {
            let separator = match rest {
                [Val::String(separator)] => separator,
                _ => "",
            };
            let texts: Option<Vec<&str>> = elements
                .iter()
                .map(|element| match element {
                    Val::String(text) => Some(&**text),
                    _ => None,
                })
                .collect();
            Val::text(texts.ok_or_else(no_overload)?.join(separator))
        }
        _ => return Err(no_overload()),
    })
}

fn regex(pattern: &str) -> Result<regex::Regex, EvaluationError> {
    let regex = RegexBuilder::new(pattern).size_limit(REGEX_SIZE).build();
    regex.map_err(|_| EvaluationError::Failed(format!("error parsing regexp: {pattern}")))
}

/// Returns the number of characters before an offset in bytes.
fn characters(text: &str, offset: usize) -> i64 {
    integer(text[..offset].chars().count())
}

/// Returns the offset of a character, in bytes.
fn offset(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

pub(super) fn integer(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
