//! `text.format(values)`, with the number formats of the locale `en-US`.

use std::fmt::Write;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed};
use super::types::Type;
use super::value::Val;
use super::{functions, times};
use crate::go;

/// Digits after the point, unless a clause sets the precision.
const PRECISION: usize = 6;
/// Largest precision of a clause. Go has a limit of a million.
const MAX_PRECISION: usize = 1_000_000;

/// Reason why a value cannot be formatted.
enum FormatError {
    /// The clause does not accept the value.
    Refused(String),
    Evaluation(EvaluationError),
}

impl From<EvaluationError> for FormatError {
    fn from(error: EvaluationError) -> Self {
        Self::Evaluation(error)
    }
}

impl From<FormatError> for EvaluationError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Refused(why) => failed(format!("error during formatting: {why}")),
            FormatError::Evaluation(error) => error,
        }
    }
}

/// Formats values by the clauses of a template such as `%s has %d`.
pub(super) fn format(template: &str, values: &Val<'_>, cost: &mut Cost) -> Result<String, EvaluationError> {
    cost.text(template.len())?;
    let mut formatted = String::with_capacity(template.len());
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        formatted.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        let Some(value) = values.element(next) else {
            return Err(failed(format!("index {next} out of range")));
        };
        if rest.is_empty() {
            return Err(failed("unexpected end of string"));
        }
        let (precision, clause, after) =
            clause(rest).map_err(|why| failed(format!("could not parse formatting clause: {why}")))?;
        let text = formatted_value(clause, precision, &value.usable()?, cost)?;
        cost.text(text.len())?;
        formatted.push_str(&text);
        rest = after;
        next += 1;
    }
    formatted.push_str(rest);
    cost.text(formatted.len())?;
    Ok(formatted)
}

/// Returns the error of a template for a literal list of values with these types, and the index of the value that causes it, if a value does;
/// `None` without an error. Types of values inside of lists and maps are checked only when the values are formatted.
pub(super) fn misuse(template: &str, types: &[Type]) -> Option<(Option<usize>, String)> {
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Some((None, "unexpected end of string".to_owned()));
        }
        let Some(of) = types.get(next) else {
            return Some((None, format!("index {next} out of range")));
        };
        let letter = match clause(rest) {
            Ok((_, letter, after)) => {
                rest = after;
                letter
            }
            Err(why) => return Some((None, format!("could not parse formatting clause: {why}"))),
        };
        if !is_formattable(letter, of) {
            let why = refusal(letter, &of.runtime_name());
            return Some((Some(next), format!("error during formatting: {why}")));
        }
        next += 1;
    }
    let given = types.len();
    let why = || format!("too many arguments supplied to string.format (expected {next}, got {given})");
    (given > next).then(|| (None, why()))
}

/// Whether a clause accepts values of a type.
fn is_formattable(letter: char, of: &Type) -> bool {
    if matches!(of, Type::Dyn | Type::Open) {
        return true;
    }
    match letter {
        's' => !matches!(of, Type::Object(_) | Type::Composed(..) | Type::Message(_) | Type::Optional(_)),
        'f' | 'e' => matches!(of, Type::Double | Type::String),
        'b' => matches!(of, Type::Int | Type::Uint | Type::Bool),
        'd' | 'o' => matches!(of, Type::Int | Type::Uint),
        _ => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
    }
}

/// Returns the reason why a clause does not accept values of the type `given`.
fn refusal(letter: char, given: &str) -> String {
    let rule = match letter {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    };
    format!("{rule}, was given {given}")
}

/// Splits precision and letter of a clause from the text after it.
fn clause(text: &str) -> Result<(Option<usize>, char, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit());
            let Some(end) = end else {
                return Err(
                    "error while parsing precision: could not find end of precision specifier".to_owned()
                );
            };
            let digits = &after[..end];
            let number = digits.parse::<i64>().map_err(|_| {
                let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                format!(
                    "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \
                     {}: {why}",
                    go::quote(digits)
                )
            })?;
            (Some(usize::try_from(number).unwrap_or(usize::MAX)), &after[end..])
        }
        None => (None, text),
    };
    // cel-go reads one byte, so a letter outside of ASCII appears as its first byte.
    let Some(letter) = rest.bytes().next().map(char::from) else {
        return Err("unrecognized formatting clause".to_owned());
    };
    if !"sdfebxXo".contains(letter) {
        return Err(format!("unrecognized formatting clause \"{letter}\""));
    }
    Ok((precision, letter, &rest[1..]))
}

/// Formats a value by a clause.
fn formatted_value(
    letter: char,
    precision: Option<usize>,
    value: &Val<'_>,
    cost: &mut Cost,
) -> Result<String, FormatError> {
    let special = |value: &Val<'_>| match value {
        Val::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => text.parse::<f64>().ok(),
        Val::Double(number) => Some(*number),
        _ => None,
    };
    let refused = || FormatError::Refused(refusal(letter, value.type_name()));
    Ok(match (letter, value) {
        ('s', value) => text(value, cost)?,
        ('d', Val::Int(number)) => number.to_string(),
        ('d', Val::Uint(number)) => number.to_string(),
        ('f', value) => {
            let number = special(value).ok_or_else(refused)?;
            let precision = precision.unwrap_or(PRECISION).min(MAX_PRECISION);
            cost.text(precision)?;
            fixed(number, precision)
        }
        ('e', value) => {
            let number = special(value).ok_or_else(refused)?;
            // As in kube-apiserver, the precision is the width of the whole number.
            let width = precision.unwrap_or(PRECISION).min(MAX_PRECISION);
            cost.text(width)?;
            format!("{:>width$}", scientific(number))
        }
        ('b', Val::Int(number)) => signed(*number, |number| format!("{number:b}")),
        ('b', Val::Uint(number)) => format!("{number:b}"),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('o', Val::Int(number)) => signed(*number, |number| format!("{number:o}")),
        ('o', Val::Uint(number)) => format!("{number:o}"),
        ('x' | 'X', Val::Int(number)) => in_case(letter, &signed(*number, |number| format!("{number:x}"))),
        ('x' | 'X', Val::Uint(number)) => in_case(letter, &format!("{number:x}")),
        ('x' | 'X', Val::String(text)) => in_case(letter, &hex(text.as_bytes())),
        ('x' | 'X', Val::Bytes(bytes)) => in_case(letter, &hex(bytes)),
        _ => return Err(refused()),
    })
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn in_case(letter: char, text: &str) -> String {
    if letter == 'X' { text.to_ascii_uppercase() } else { text.to_owned() }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the text of NaN or of an infinite float; `None` for others.
fn not_finite(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Formats a float with a point and separators between thousands.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let digits = format!("{:.precision$}", number.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut grouped = String::with_capacity(digits.len() + whole.len() / 3 + 1);
    if number < 0.0 {
        grouped.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if precision > 0 {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// Formats a float with six decimals and a power of ten.
fn scientific(number: f64) -> String {
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let digits = format!("{:.6e}", if number == 0.0 { 0.0 } else { number });
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    let superscript = |digit: char| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit.to_digit(10).unwrap_or(0) as usize);
    let exponent: String = format!("{exponent:0>2}").chars().filter_map(superscript).collect();
    format!("{mantissa}×10{sign}{exponent}")
}

/// Formats a value by the clause `%s`.
fn text(value: &Val<'_>, cost: &mut Cost) -> Result<String, FormatError> {
    match value {
        Val::Null => Ok("null".to_owned()),
        Val::Type(name) => Ok((*name).to_owned()),
        value if value.is_list() || value.is_map() => literal(value, cost),
        value => match functions::text_of(value) {
            Some(text) => text.map_err(|error| FormatError::Refused(error.to_string())),
            None => Err(FormatError::Refused(refusal('s', value.type_name()))),
        },
    }
}

/// Formats a value inside of a list or a map: like a literal of an expression. Recurses as deep as the value is nested.
fn literal(value: &Val<'_>, cost: &mut Cost) -> Result<String, FormatError> {
    cost.spend(1)?;
    if value.is_list() {
        let mut parts = Vec::new();
        for element in value.range().into_iter().flatten() {
            parts.push(literal(&element.usable()?, cost)?);
        }
        return Ok(format!("[{}]", parts.join(", ")));
    }
    if value.is_map() {
        return map_literal(value, cost);
    }
    scalar_literal(value, cost)
}

/// Formats a map, with its entries in the order of the texts of their keys.
fn map_literal(map: &Val<'_>, cost: &mut Cost) -> Result<String, FormatError> {
    let mut parts = Vec::new();
    for key in map.range().into_iter().flatten() {
        if !matches!(key, Val::String(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_)) {
            let why = format!("no formatting function for map key of type {}", key.type_name());
            return Err(FormatError::Refused(why));
        }
        let Some(value) = map.get(&key, cost)? else {
            let shown = functions::text_of(&key).and_then(Result::ok).unwrap_or_default();
            return Err(FormatError::Refused(format!("could not find key: {}", go::quote(&shown))));
        };
        parts.push((literal(&key, cost)?, literal(&value.usable()?, cost)?));
    }
    parts.sort_by(|(one, _), (two, _)| one.cmp(two));
    let parts: Vec<String> = parts.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", parts.join(", ")))
}

/// Formats a value without parts.
fn scalar_literal(value: &Val<'_>, cost: &mut Cost) -> Result<String, FormatError> {
    let text = match value {
        Val::Double(number) if not_finite(*number).is_some() => {
            // cel-go uses Go's verb `%f` here, which prints these words.
            let word = match *number {
                f64::INFINITY => "+Inf",
                f64::NEG_INFINITY => "-Inf",
                _ => "NaN",
            };
            go::quote(word)
        }
        Val::Double(number) => format!("{number:.PRECISION$}"),
        Val::Timestamp(_) | Val::Duration(_) => {
            let name = if matches!(value, Val::Timestamp(_)) { "timestamp" } else { "duration" };
            format!("{name}({})", go::quote(&times::text_of(value).unwrap_or_default()))
        }
        Val::String(_) => go::quote(&text(value, cost)?),
        Val::Bytes(_) => format!("b{}", go::quote(&text(value, cost)?)),
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Null | Val::Type(_) => text(value, cost)?,
        other => {
            let why = format!("no formatting function for {}", other.type_name());
            return Err(FormatError::Refused(why));
        }
    };
    cost.text(text.len())?;
    Ok(text)
}

/// Quotes a text as a literal of an expression: `strings.quote(text)`.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
