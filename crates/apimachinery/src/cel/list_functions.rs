//! Kubernetes' functions of lists.

use std::cmp::Ordering;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{Evaluated, integer};
use super::operators;
use super::value::Val;

/// Calls a function of a list.
pub(super) fn call<'a>(
    function: &str,
    list: &Val<'a>,
    arguments: &[Val<'a>],
    cost: &mut Cost,
) -> Evaluated<'a> {
    let count = list.count().ok_or_else(no_overload)?;
    match (function, arguments) {
        ("indexOf", [wanted]) => place(list, 0..count, wanted, cost),
        ("lastIndexOf", [wanted]) => place(list, (0..count).rev(), wanted, cost),
        ("isSorted", []) => is_sorted(list, cost),
        ("min", []) => extreme(function, list, Ordering::Less, cost),
        ("max", []) => extreme(function, list, Ordering::Greater, cost),
        ("sum", []) => {
            cost.values(count)?;
            let mut elements = list.range().ok_or_else(no_overload)?;
            let first = elements.next().unwrap_or(Val::Int(0));
            elements.try_fold(first, |sum, element| operators::add_numbers(&sum, &element))
        }
        ("join", []) => join(list, "", cost),
        ("join", [Val::String(separator)]) => join(list, separator, cost),
        _ => Err(no_overload()),
    }
}

/// Returns the first of the places at which the list has a value; -1 if there is none.
fn place<'a>(
    list: &Val<'a>,
    places: impl Iterator<Item = usize>,
    wanted: &Val<'a>,
    cost: &mut Cost,
) -> Evaluated<'a> {
    for place in places {
        if list.element(place).ok_or_else(no_overload)?.equals(wanted, cost)? {
            return Ok(Val::Int(integer(place)));
        }
    }
    Ok(Val::Int(-1))
}

fn is_sorted<'a>(list: &Val<'a>, cost: &mut Cost) -> Evaluated<'a> {
    let mut elements = list.range().ok_or_else(no_overload)?;
    let Some(mut previous) = elements.next() else { return Ok(Val::Bool(true)) };
    for element in elements {
        if previous.compare(&element, cost)?.ok_or_else(no_overload)?.is_gt() {
            return Ok(Val::Bool(false));
        }
        previous = element;
    }
    Ok(Val::Bool(true))
}

fn extreme<'a>(function: &str, list: &Val<'a>, wanted: Ordering, cost: &mut Cost) -> Evaluated<'a> {
    let mut elements = list.range().ok_or_else(no_overload)?;
    let mut best = elements.next().ok_or_else(|| failed(format!("{function} called on empty list")))?;
    for element in elements {
        if element.compare(&best, cost)?.ok_or_else(no_overload)? == wanted {
            best = element;
        }
    }
    Ok(best)
}

fn join<'a>(list: &Val<'a>, separator: &str, cost: &mut Cost) -> Evaluated<'a> {
    let mut joined = String::new();
    for (index, element) in list.range().ok_or_else(no_overload)?.enumerate() {
        let separator = if index == 0 { "" } else { separator };
        let text = text_of(&element)?;
        cost.spend(1)?;
        cost.text(separator.len() + text.len())?;
        joined.push_str(separator);
        joined.push_str(text);
    }
    cost.text(joined.len())?;
    Ok(Val::text(joined))
}

fn text_of<'v>(element: &'v Val<'_>) -> Result<&'v str, EvaluationError> {
    match element {
        Val::String(text) => Ok(text),
        Val::Bool(value) => Err(failed(format!("join: invalid input: {value}"))),
        Val::Int(value) => Err(failed(format!("join: invalid input: {value}"))),
        other => Err(failed(format!("join: invalid input: {}", other.type_name()))),
    }
}
