//! Operators, under cel-go's names.

use std::cmp::Ordering;
use std::rc::Rc;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::types::Type;
use super::value::{RcCow, Val};

const OPERATORS: [&str; 16] = [
    "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_+_", "_-_", "_*_", "_/_", "_%_", "!_", "-_",
    "_?_:_", "_[_]",
];

pub(super) fn is_operator(function: &str) -> bool {
    OPERATORS.contains(&function)
}

/// Returns the type of an operation; `None` if there is no overload for the types.
pub(super) fn signature(operator: &str, operands: &[Type]) -> Option<Type> {
    match (operator, operands) {
        ("_==_" | "_!=_", [one, two]) => one.unified(two).map(|_| Type::Bool),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, two]) => {
            let is_ordered =
                |of: &Type| of.is_number() || matches!(of, Type::Bool | Type::String | Type::Bytes);
            // Numbers of different types have an order, unlike a sum.
            let fit = one.fits(two) || one.is_number() && two.is_number();
            (fit && is_ordered(one) && is_ordered(two)).then_some(Type::Bool)
        }
        ("@in", [element, range]) => match range {
            Type::Dyn => Some(Type::Bool),
            Type::List(of) | Type::Map(of, _) => element.fits(of).then_some(Type::Bool),
            _ => None,
        },
        ("_+_", [one, two]) => {
            let is_sum =
                |of: &Type| of.is_number() || matches!(of, Type::String | Type::Bytes | Type::List(_));
            // The type of both is `Dyn` if one of them is, so each is checked as well.
            one.unified(two).filter(|of| is_sum(of) && is_sum(one) && is_sum(two))
        }
        ("_-_" | "_*_" | "_/_", [one, two]) => {
            one.unified(two).filter(|_| one.is_number() && two.is_number())
        }
        ("_%_", [one, two]) => {
            let is_whole = |of: &Type| matches!(of, Type::Dyn | Type::Int | Type::Uint);
            one.unified(two).filter(|_| is_whole(one) && is_whole(two))
        }
        ("!_", [of]) => of.fits(&Type::Bool).then_some(Type::Bool),
        ("-_", [of]) => matches!(of, Type::Dyn | Type::Int | Type::Double).then(|| of.clone()),
        ("_?_:_", [condition, one, two]) => condition.fits(&Type::Bool).then(|| one.unified(two)).flatten(),
        ("_[_]", [Type::Dyn, _]) => Some(Type::Dyn),
        ("_[_]", [Type::List(element), index]) => index.fits(&Type::Int).then(|| (**element).clone()),
        ("_[_]", [Type::Map(key, value), index]) => index.fits(key).then(|| (**value).clone()),
        _ => None,
    }
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
            Ok(Val::Bool(is(one.compare(two, cost)?.ok_or_else(no_overload)?)))
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
        _ => Err(no_overload()),
    }
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
            let both = [one, two].into_iter().filter_map(Val::range).flatten();
            Ok(Val::List(Rc::new(both.collect())))
        }
        _ => add_numbers(one, two),
    }
}

/// Adds numbers of one type.
pub(super) fn add_numbers<'a>(one: &Val<'a>, two: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
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

fn index<'a>(container: &Val<'a>, key: &Val<'a>, cost: &mut Cost) -> Result<Val<'a>, EvaluationError> {
    if container.is_map() {
        return container.get(key, cost)?.ok_or_else(|| no_such_key(key));
    }
    if !container.is_list() {
        return Err(no_such_key(key));
    }
    let Val::Int(at) = key else { return Err(no_overload()) };
    let found = usize::try_from(*at).ok().and_then(|at| container.element(at));
    found.ok_or_else(|| failed(format!("index out of bounds: {at}")))
}

/// Returns the error for a missing key of a map.
pub(super) fn no_such_key(key: &Val<'_>) -> EvaluationError {
    let shown = match key {
        Val::String(text) => text.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Bool(value) => value.to_string(),
        other => other.type_name().to_owned(),
    };
    failed(format!("no such key: {shown}"))
}
