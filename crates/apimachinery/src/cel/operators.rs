//! Operators, under cel-go's names.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use super::eval::{Cost, EvaluationError, no_overload};
use super::types::Type;
use super::value::Val;

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
    cost: &mut Cost<'_>,
) -> Result<Val<'a>, EvaluationError> {
    cost.spend(1)?;
    let compared = |of: &[Val<'_>], wanted: fn(Ordering) -> bool| {
        of[0].compare(&of[1]).map(|order| Val::Bool(wanted(order))).ok_or_else(no_overload)
    };
    match (operator, operands) {
        ("_==_", [one, two]) => {
            // A comparison ends at the latest with the shorter value.
            cost.spend(one.weight().min(two.weight()))?;
            Ok(Val::Bool(one.equals(two)))
        }
        ("_!=_", [one, two]) => {
            cost.spend(one.weight().min(two.weight()))?;
            Ok(Val::Bool(!one.equals(two)))
        }
        ("_<_", [_, _]) => compared(operands, Ordering::is_lt),
        ("_<=_", [_, _]) => compared(operands, Ordering::is_le),
        ("_>_", [_, _]) => compared(operands, Ordering::is_gt),
        ("_>=_", [_, _]) => compared(operands, Ordering::is_ge),
        ("@in", [element, range]) if range.is_map() => Ok(Val::Bool(range.get(element).is_some())),
        ("@in", [element, range]) => {
            cost.spend(range.weight())?;
            let elements = range.elements().ok_or_else(no_overload)?;
            Ok(Val::Bool(elements.iter().any(|known| known.equals(element))))
        }
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(value)]) => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_+_", [one, two]) => add(one, two, cost),
        ("_-_" | "_*_" | "_/_" | "_%_", [one, two]) => arithmetic(operator, one, two),
        ("_[_]", [container, key]) => index(container, key),
        _ => Err(no_overload()),
    }
}

fn overflow() -> EvaluationError {
    EvaluationError::Failed("integer overflow".to_owned())
}

fn add<'a>(one: &Val<'a>, two: &Val<'a>, cost: &mut Cost<'_>) -> Result<Val<'a>, EvaluationError> {
    cost.spend(one.weight() + two.weight())?;
    match (one, two) {
        (Val::String(one), Val::String(two)) => Ok(Val::text(format!("{one}{two}"))),
        (Val::Bytes(one), Val::Bytes(two)) => Ok(Val::Bytes(Cow::Owned([&**one, &**two].concat()))),
        (one, two) => match (one.elements(), two.elements()) {
            (Some(mut one), Some(two)) => {
                one.extend(two);
                Ok(Val::List(Rc::new(one)))
            }
            _ => add_numbers(one, two),
        },
    }
}

/// Adds numbers of one type.
pub(super) fn add_numbers<'a>(one: &Val<'a>, two: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    match (one, two) {
        (Val::Int(one), Val::Int(two)) => one.checked_add(*two).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(two)) => one.checked_add(*two).map(Val::Uint).ok_or_else(overflow),
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
        return Err(EvaluationError::Failed(why.to_owned()));
    }
    let int = |value: Option<i64>| value.map(Val::Int).ok_or_else(overflow);
    let uint = |value: Option<u64>| value.map(Val::Uint).ok_or_else(overflow);
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

fn index<'a>(container: &Val<'a>, key: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    if container.is_map() {
        return container.get(key).ok_or_else(|| no_such_key(key));
    }
    let count = container.len().filter(|_| !matches!(container, Val::String(_) | Val::Bytes(_)));
    let Some(count) = count else { return Err(no_such_key(key)) };
    let Val::Int(at) = key else { return Err(no_overload()) };
    let found = usize::try_from(*at).ok().filter(|at| *at < count).and_then(|at| match container {
        Val::List(list) => list.get(at).cloned(),
        Val::JsonList(list) => list.get(at).map(Val::json),
        _ => None,
    });
    found.ok_or_else(|| EvaluationError::Failed(format!("index out of bounds: {at}")))
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
    EvaluationError::Failed(format!("no such key: {shown}"))
}
