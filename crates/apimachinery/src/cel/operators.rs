//! Operators, under cel-go's names.

use std::cmp::Ordering;
use std::rc::Rc;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::times;
use super::value::{RcCow, Val};
use super::value_schema::ValueSchema;

const OPERATORS: [&str; 18] = [
    "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_+_", "_-_", "_*_", "_/_", "_%_", "!_", "-_",
    "_?_:_", "_[_]", "_?._", "_[?_]",
];

pub(super) fn is_operator(function: &str) -> bool {
    OPERATORS.contains(&function)
}

/// Applies an operator to evaluated operands.
pub(super) fn apply<'a>(
    operator: &str,
    operands: &[Val<'a>],
    cost: &mut Cost,
) -> Result<Val<'a>, EvaluationError> {
    let is: fn(Ordering) -> bool = match operator {
        "_<_" => Ordering::is_lt,
        "_<=_" => Ordering::is_le,
        "_>_" => Ordering::is_gt,
        _ => Ordering::is_ge,
    };
    match (operator, operands) {
        ("_==_", [one, two]) => Ok(Val::Bool(one.equals(two, cost)?)),
        ("_!=_", [one, two]) => Ok(Val::Bool(!one.equals(two, cost)?)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, two]) => {
            Ok(Val::Bool(is(one.compare(two, cost)?.ok_or_else(|| no_order(one, two))?)))
        }
        ("@in", [element, range]) if range.is_map() => Ok(Val::Bool(range.get(element, cost)?.is_some())),
        ("@in", [element, range]) if range.is_list() => {
            for known in range.range().into_iter().flatten() {
                if known.equals(element, cost)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(value)]) => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_+_", [one, two]) => add(one, two, cost),
        ("_-_" | "_*_" | "_/_" | "_%_", [one, two]) => arithmetic(operator, one, two),
        ("_[_]", [container, key]) => index(container, key, cost),
        ("_?._" | "_[?_]", [container, key]) => optional_index(container, key, cost),
        _ => Err(no_overload()),
    }
}

/// Builds the error for operands without an order.
fn no_order(one: &Val<'_>, two: &Val<'_>) -> EvaluationError {
    let is_number = |value: &Val<'_>| matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_));
    if is_number(one) && is_number(two) { failed("NaN values cannot be ordered") } else { no_overload() }
}

pub(super) fn overflow() -> EvaluationError {
    failed("integer overflow")
}

pub(super) fn unsigned_overflow() -> EvaluationError {
    failed("unsigned integer overflow")
}

fn add<'a>(one: &Val<'a>, two: &Val<'a>, cost: &mut Cost) -> Result<Val<'a>, EvaluationError> {
    match (one, two) {
        (Val::String(one), Val::String(two)) => {
            cost.text(one.len() + two.len())?;
            Ok(Val::text([&**one, &**two].concat()))
        }
        (Val::Bytes(one), Val::Bytes(two)) => {
            cost.text(one.len() + two.len())?;
            Ok(Val::Bytes(RcCow::Owned([&**one, &**two].concat().into())))
        }
        (one, two) if one.is_list() && two.is_list() => {
            cost.values(one.count().unwrap_or(0) + two.count().unwrap_or(0))?;
            if let Some(schema) = one.unordered() {
                return add_unordered(one, two, schema, cost);
            }
            let both = [one, two].into_iter().filter_map(Val::range).flatten();
            Ok(Val::List(Rc::new(both.collect())))
        }
        _ => add_numbers(one, two),
    }
}

/// Adds a list to a set or a keyed list: elements that it has already keep their place, and keyed ones get the new value.
fn add_unordered<'a>(
    one: &Val<'a>,
    two: &Val<'a>,
    schema: &'a ValueSchema,
    cost: &mut Cost,
) -> Result<Val<'a>, EvaluationError> {
    let mut elements: Vec<Val<'a>> = one.range().into_iter().flatten().collect();
    for element in two.range().into_iter().flatten() {
        let mut known = None;
        for (place, other) in elements.iter().enumerate() {
            if other.same_identity(&element, schema, cost)? {
                known = Some(place);
                break;
            }
        }
        match known {
            Some(place) => elements[place] = element,
            None => elements.push(element),
        }
    }
    Ok(Val::KeyedList(Rc::new(elements), schema))
}

/// Adds numbers or durations of one type, or a timestamp and a duration.
pub(super) fn add_numbers<'a>(one: &Val<'a>, two: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    if let Some(sum) = times::arithmetic("_+_", one, two) {
        return sum;
    }
    match (one, two) {
        (Val::Int(one), Val::Int(two)) => one.checked_add(*two).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(two)) => {
            one.checked_add(*two).map(Val::Uint).ok_or_else(unsigned_overflow)
        }
        (Val::Double(one), Val::Double(two)) => Ok(Val::Double(one + two)),
        _ => Err(no_overload()),
    }
}

fn arithmetic<'a>(operator: &str, one: &Val<'a>, two: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    if let Some(result) = times::arithmetic(operator, one, two) {
        return result;
    }
    let by_zero = match (operator, two) {
        ("_/_", Val::Int(0) | Val::Uint(0)) => Some("division by zero"),
        ("_%_", Val::Int(0) | Val::Uint(0)) => Some("modulus by zero"),
        _ => None,
    };
    if let Some(why) = by_zero {
        return Err(failed(why));
    }
    let int = |value: Option<i64>| value.map(Val::Int).ok_or_else(overflow);
    let uint = |value: Option<u64>| value.map(Val::Uint).ok_or_else(unsigned_overflow);
    match (operator, one, two) {
        ("_-_", Val::Int(one), Val::Int(two)) => int(one.checked_sub(*two)),
        ("_*_", Val::Int(one), Val::Int(two)) => int(one.checked_mul(*two)),
        ("_/_", Val::Int(one), Val::Int(two)) => int(one.checked_div(*two)),
        ("_%_", Val::Int(one), Val::Int(two)) => int(one.checked_rem(*two)),
        ("_-_", Val::Uint(one), Val::Uint(two)) => uint(one.checked_sub(*two)),
        ("_*_", Val::Uint(one), Val::Uint(two)) => uint(one.checked_mul(*two)),
        ("_/_", Val::Uint(one), Val::Uint(two)) => uint(one.checked_div(*two)),
        ("_%_", Val::Uint(one), Val::Uint(two)) => uint(one.checked_rem(*two)),
        ("_-_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one - two)),
        ("_*_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one * two)),
        ("_/_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one / two)),
        _ => Err(no_overload()),
    }
}

/// Evaluates `container[key]` or `container.key`. A part of an optional value is optional too.
pub(super) fn index<'a>(
    container: &Val<'a>,
    key: &Val<'a>,
    cost: &mut Cost,
) -> Result<Val<'a>, EvaluationError> {
    if matches!(container, Val::Optional(_)) {
        return optional_index(container, key, cost);
    }
    match find(container, key, cost)? {
        Some(value) => Ok(value),
        None if container.is_list() => Err(failed(format!("index out of bounds: {}", shown_key(key)))),
        None => Err(no_such_key(key)),
    }
}

/// Evaluates `container[?key]` or `container.?key`.
fn optional_index<'a>(
    container: &Val<'a>,
    key: &Val<'a>,
    cost: &mut Cost,
) -> Result<Val<'a>, EvaluationError> {
    let found = match container {
        Val::Optional(Some(value)) => find(value, key, cost)?,
        Val::Optional(None) => None,
        container => find(container, key, cost)?,
    };
    Ok(found.map_or(Val::NONE, Val::some))
}

/// Returns the element or entry; `None` if there is none, or if the container is neither a list nor a map.
pub(super) fn find<'a>(
    container: &Val<'a>,
    key: &Val<'_>,
    cost: &mut Cost,
) -> Result<Option<Val<'a>>, EvaluationError> {
    let found = if container.is_list() {
        let place = match key {
            Val::Int(at) => usize::try_from(*at).ok(),
            Val::Uint(at) => usize::try_from(*at).ok(),
            Val::Double(at) if at.fract() == 0.0 => {
                (0.0..=f64::from(u32::MAX)).contains(at).then_some(*at as usize)
            }
            Val::Double(at) => return Err(failed(format!("unsupported index value {at} in list"))),
            other => {
                return Err(failed(format!("unsupported index type '{}' in list", other.type_name())));
            }
        };
        place.and_then(|place| container.element(place))
    } else {
        container.get(key, cost)?
    };
    found.map(Val::usable).transpose()
}

/// Returns the error for a missing key of a map.
pub(super) fn no_such_key(key: &Val<'_>) -> EvaluationError {
    failed(format!("no such key: {}", shown_key(key)))
}

pub(super) fn shown_key(key: &Val<'_>) -> String {
    match key {
        Val::String(text) => text.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Double(value) => crate::go::float(*value),
        other => other.type_name().to_owned(),
    }
}
