//! Optional values: `optional.of(1).orValue(2)`.

use super::evaluation_error::{EvaluationError, failed};
use super::functions::{Evaluated, no_overload_of};
use super::value::Val;

/// Returns an optional value; it is empty for the zero of the value's type.
pub(super) fn of_non_zero<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let is_zero = match value {
        Val::Null => true,
        Val::Bool(value) => !value,
        Val::Int(value) | Val::Duration(value) => *value == 0,
        Val::Uint(value) => *value == 0,
        Val::Double(value) => *value == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Optional(value) => value.is_none(),
        Val::Message(message) => message.fields.is_empty(),
        other => other.count() == Some(0),
    };
    Ok(if is_zero { Val::NONE } else { Val::some(value.clone()) })
}

/// Returns the values of a list of optional values.
pub(super) fn unwrap<'a>(function: &str, list: &Val<'a>) -> Evaluated<'a> {
    let refused = || no_overload_of(function, [list]);
    let mut values = Vec::new();
    for element in list.range().filter(|_| list.is_list()).ok_or_else(refused)? {
        match element {
            Val::Optional(value) => values.extend(value.map(|value| (*value).clone())),
            _ => return Err(refused()),
        }
    }
    Ok(Val::list(values))
}

/// Calls a function of an optional value; `None` if there is none of this name.
pub(super) fn member<'a>(
    function: &str,
    value: Option<&Val<'a>>,
    arguments: &[Val<'a>],
) -> Result<Option<Val<'a>>, EvaluationError> {
    match (function, arguments) {
        ("hasValue", []) => Ok(Some(Val::Bool(value.is_some()))),
        ("value", []) => value.cloned().map(Some).ok_or_else(|| failed("optional.none() dereference")),
        _ => Ok(None),
    }
}
