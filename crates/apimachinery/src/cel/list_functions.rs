//! Functions of lists.

use std::cmp::Ordering;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{Evaluated, integer};
use super::operators;
use super::optionals;
use super::value::Val;

/// Calls a function of a list; `None` if there is none of this name for the arguments.
pub(super) fn call<'a>(
    function: &str,
    list: &Val<'a>,
    arguments: &[Val<'a>],
    cost: &mut Cost,
) -> Result<Option<Val<'a>>, EvaluationError> {
    let count = list.count().ok_or_else(no_overload)?;
    // The first element decides which overload is called.
    let first = list.element(0);
    let result: Evaluated<'a> = match (function, arguments) {
        ("indexOf", [wanted]) => place(list, 0..count, wanted, cost),
        ("lastIndexOf", [wanted]) => place(list, (0..count).rev(), wanted, cost),
        ("isSorted", []) if first.as_ref().is_none_or(is_comparable) => is_sorted(list, cost),
        ("min", []) if first.as_ref().is_none_or(is_comparable) => {
            extreme(function, list, Ordering::Less, cost)
        }
        ("max", []) if first.as_ref().is_none_or(is_comparable) => {
            extreme(function, list, Ordering::Greater, cost)
        }
        ("sum", []) => match first {
            None => Ok(Val::Int(0)),
            Some(Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_)) => sum(list, count, cost),
            Some(_) => return Ok(None),
        },
        ("join", []) => join(list, "", cost),
        ("join", [Val::String(separator)]) => join(list, separator, cost),
        ("first", []) => Ok(first.map_or(Val::NONE, Val::some)),
        ("last", []) => {
            let last = count.checked_sub(1).and_then(|last| list.element(last));
            Ok(last.map_or(Val::NONE, Val::some))
        }
        ("unwrapOpt", []) => optionals::unwrap(function, list),
        ("reverse", []) => {
            cost.values(count)?;
            let mut elements: Vec<_> = list.range().into_iter().flatten().collect();
            elements.reverse();
            Ok(Val::list(elements))
        }
        ("distinct", []) => distinct(list, cost),
        ("sort", []) => sort_by(list, list, cost),
        ("slice", [Val::Int(start), Val::Int(end)]) => slice(list, count, *start, *end, cost),
        ("flatten", []) => flatten(list, 1, cost),
        ("flatten", [Val::Int(depth)]) => flatten(list, *depth, cost),
        _ => return Ok(None),
    };
    result.map(Some)
}

fn is_comparable(value: &Val<'_>) -> bool {
    matches!(
        value,
        Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Bool(_)
            | Val::String(_)
            | Val::Bytes(_)
            | Val::Timestamp(_)
            | Val::Duration(_)
    )
}

/// Returns the first of `places` at which the list has the wanted value; -1 if there is none.
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
    let mut previous: Option<Val<'a>> = None;
    for element in list.range().into_iter().flatten() {
        if !is_comparable(&element) {
            return Err(no_overload());
        }
        // As in cel-go's library, neighbors of different types count as sorted.
        if let Some(previous) = &previous
            && previous.compare(&element, cost)?.is_some_and(Ordering::is_gt)
        {
            return Ok(Val::Bool(false));
        }
        previous = Some(element);
    }
    Ok(Val::Bool(true))
}

fn extreme<'a>(function: &str, list: &Val<'a>, wanted: Ordering, cost: &mut Cost) -> Evaluated<'a> {
    let mut elements = list.range().ok_or_else(no_overload)?;
    let mut best = elements.next().ok_or_else(|| failed(format!("{function} called on empty list")))?;
    for element in elements {
        if !is_comparable(&element) {
            return Err(no_overload());
        }
        if element.compare(&best, cost)? == Some(wanted) {
            best = element;
        }
    }
    Ok(best)
}

fn sum<'a>(list: &Val<'a>, count: usize, cost: &mut Cost) -> Evaluated<'a> {
    cost.values(count)?;
    let mut elements = list.range().ok_or_else(no_overload)?;
    let first = elements.next().unwrap_or(Val::Int(0));
    elements.try_fold(first, |sum, element| operators::add_numbers(&sum, &element))
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

fn distinct<'a>(list: &Val<'a>, cost: &mut Cost) -> Evaluated<'a> {
    let mut found: Vec<Val<'a>> = Vec::new();
    for element in list.range().into_iter().flatten() {
        let mut is_known = false;
        for known in &found {
            if element.equals(known, cost)? {
                is_known = true;
                break;
            }
        }
        if !is_known {
            found.push(element);
        }
    }
    Ok(Val::list(found))
}

/// Sorts a list by the keys of its elements.
pub(super) fn sort_by<'a>(list: &Val<'a>, keys: &Val<'a>, cost: &mut Cost) -> Evaluated<'a> {
    let keys: Vec<Val<'a>> = keys.range().into_iter().flatten().collect();
    let Some(first) = keys.first() else { return Ok(list.clone()) };
    if !is_comparable(first) {
        return Err(failed("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(failed("list elements must have the same type"));
    }
    // The bound of cel-go's estimate: each element is compared with every other.
    let count = u64::try_from(keys.len()).unwrap_or(u64::MAX);
    cost.spend(count.saturating_mul(count))?;
    let elements = list.range().into_iter().flatten();
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = keys.into_iter().zip(elements).collect();
    let mut refused = None;
    pairs.sort_by(|(one, _), (two, _)| match one.compare(two, cost) {
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(error) => {
            refused.get_or_insert(error);
            Ordering::Equal
        }
    });
    refused.map_or_else(|| Ok(Val::list(pairs.into_iter().map(|(_, element)| element).collect())), Err)
}

fn slice<'a>(list: &Val<'a>, count: usize, start: i64, end: i64, cost: &mut Cost) -> Evaluated<'a> {
    let refused = |why: String| Err(failed(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(first), Ok(after_last)) = (usize::try_from(start), usize::try_from(end)) else {
        return refused("negative indexes not supported".to_owned());
    };
    if first > after_last {
        return refused("start index must be less than or equal to end index".to_owned());
    }
    if after_last > count {
        return refused(format!("list is length {count}"));
    }
    cost.values(after_last - first)?;
    Ok(Val::list((first..after_last).filter_map(|at| list.element(at)).collect()))
}

fn flatten<'a>(list: &Val<'a>, depth: i64, cost: &mut Cost) -> Evaluated<'a> {
    if depth < 0 {
        return Err(failed("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(&mut flat, list, depth, cost)?;
    Ok(Val::list(flat))
}

/// Recurses at most as deep as the list is nested.
fn flatten_into<'a>(
    flat: &mut Vec<Val<'a>>,
    list: &Val<'a>,
    depth: i64,
    cost: &mut Cost,
) -> Result<(), EvaluationError> {
    for element in list.range().into_iter().flatten() {
        cost.spend(1)?;
        if depth > 0 && element.is_list() {
            flatten_into(flat, &element, depth - 1, cost)?;
        } else {
            flat.push(element);
        }
    }
    Ok(())
}

/// Returns the list `[0, 1, …]` with this number of elements.
pub(super) fn range<'a>(count: i64, cost: &mut Cost) -> Evaluated<'a> {
    cost.values(usize::try_from(count).unwrap_or(0))?;
    Ok(Val::list((0..count).map(Val::Int).collect()))
}

/// Calls a function of the namespace `sets` with two lists.
pub(super) fn compare_sets<'a>(
    function: &str,
    one: &Val<'a>,
    two: &Val<'a>,
    cost: &mut Cost,
) -> Evaluated<'a> {
    let result = match function {
        "sets.contains" => contains_all(one, two, cost)?,
        "sets.equivalent" => contains_all(one, two, cost)? && contains_all(two, one, cost)?,
        _ => {
            for element in one.range().into_iter().flatten() {
                if contains(two, &element, cost)? {
                    return Ok(Val::Bool(true));
                }
            }
            false
        }
    };
    Ok(Val::Bool(result))
}

/// Whether the first list has all elements of the second.
fn contains_all(list: &Val<'_>, wanted: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
    for element in wanted.range().into_iter().flatten() {
        if !contains(list, &element, cost)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains(list: &Val<'_>, wanted: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
    for element in list.range().into_iter().flatten() {
        if element.equals(wanted, cost)? {
            return Ok(true);
        }
    }
    Ok(false)
}
