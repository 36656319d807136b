//! cel-go's functions of texts. Positions count characters.

use std::rc::Rc;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed};
use super::functions::{Evaluated, integer};
use super::text_format;
use super::value::Val;

/// Calls a function of a text; `None` if there is none of this name for the arguments.
pub(super) fn call<'a>(
    function: &str,
    text: &str,
    arguments: &[Val<'a>],
    cost: &mut Cost,
) -> Result<Option<Val<'a>>, EvaluationError> {
    // All functions read the text at most three times: to count characters, to search, and to copy.
    cost.text(text.len())?;
    cost.texts(arguments)?;
    let result: Evaluated<'a> = match (function, arguments) {
        ("startsWith", [Val::String(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::String(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("contains", [Val::String(part)]) => Ok(Val::Bool(text.contains(&**part))),
        ("charAt", [Val::Int(index)]) => {
            let start = offset(text, *index)?;
            let first = text[start..].chars().next();
            Ok(Val::text(first.map(String::from).unwrap_or_default()))
        }
        ("indexOf", [Val::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Val::String(part), Val::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Val::String(part)]) => {
            Ok(Val::Int(text.rfind(&**part).map_or(-1, |at| characters(text, at))))
        }
        ("lastIndexOf", [Val::String(part), Val::Int(last)]) => last_index_of(text, part, *last),
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("format", [values]) if values.is_list() => text_format::format(text, values, cost).map(Val::text),
        ("replace", [Val::String(old), Val::String(new)]) => replace(text, old, new, usize::MAX, cost),
        ("replace", [Val::String(old), Val::String(new), Val::Int(limit)]) => {
            replace(text, old, new, unless_negative(*limit), cost)
        }
        ("split", [Val::String(separator)]) => split(text, separator, usize::MAX, cost),
        ("split", [Val::String(separator), Val::Int(limit)]) => {
            split(text, separator, unless_negative(*limit), cost)
        }
        ("substring", [Val::Int(from)]) => Ok(Val::text(&text[offset(text, *from)?..])),
        ("substring", [Val::Int(from), Val::Int(until)]) => {
            if from > until {
                return Err(failed(format!("invalid substring range. start: {from}, end: {until}")));
            }
            Ok(Val::text(&text[offset(text, *from)?..offset(text, *until)?]))
        }
        _ => return Ok(None),
    };
    result.map(Some)
}

/// Converts a limit. As in Go, a negative limit means no limit.
pub(super) fn unless_negative(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn out_of_range(index: i64) -> EvaluationError {
    failed(format!("index out of range: {index}"))
}

/// Returns the offset of a character in bytes. The position after the last character is valid.
fn offset(text: &str, index: i64) -> Result<usize, EvaluationError> {
    let place = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let offsets = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    offsets.into_iter().nth(place).ok_or_else(|| out_of_range(index))
}

/// Returns the number of characters before an offset in bytes.
fn characters(text: &str, offset: usize) -> i64 {
    integer(text[..offset].chars().count())
}

/// Searches from a position. As in cel-go, an empty text is found at any position, and others are not found from a position after the
/// end.
fn index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let Ok(start) = offset(text, from) else { return Ok(Val::Int(-1)) };
    Ok(Val::Int(text[start..].find(part).map_or(-1, |at| characters(text, start + at))))
}

/// Searches backwards for a match that begins at the position `last` or before. A position after the end has none.
fn last_index_of<'a>(text: &str, part: &str, last: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(last));
    }
    if last < 0 {
        return Err(out_of_range(last));
    }
    if last >= characters(text, text.len()) {
        return Ok(Val::Int(-1));
    }
    let end = last.saturating_add(characters(part, part.len()));
    let head = &text[..offset(text, end).unwrap_or(text.len())];
    Ok(Val::Int(head.rfind(part).map_or(-1, |at| characters(text, at))))
}

fn replace<'a>(text: &str, old: &str, new: &str, limit: usize, cost: &mut Cost) -> Evaluated<'a> {
    // The result may be much longer than the text and the arguments.
    let found = text.matches(old).count().min(limit);
    cost.values(found)?;
    cost.text(found.saturating_mul(new.len()))?;
    Ok(Val::text(text.replacen(old, new, limit)))
}

fn split<'a>(text: &str, separator: &str, limit: usize, cost: &mut Cost) -> Evaluated<'a> {
    let Some(most) = limit.checked_sub(1) else { return Ok(Val::List(Rc::default())) };
    let mut parts: Vec<Val<'a>> = Vec::new();
    let mut rest = text;
    while parts.len() < most {
        let found = if separator.is_empty() {
            // An empty separator stands between all characters, but not at the end.
            rest.chars()
                .next()
                .map(char::len_utf8)
                .filter(|first| *first < rest.len())
                .map(|first| (first, first))
        } else {
            rest.find(separator).map(|at| (at, at + separator.len()))
        };
        let Some((end, next)) = found else { break };
        cost.spend(1)?;
        parts.push(Val::text(&rest[..end]));
        rest = &rest[next..];
    }
    // As in Go, an empty text has no characters, but one part if there is a separator.
    if !(separator.is_empty() && text.is_empty()) {
        parts.push(Val::text(rest));
    }
    Ok(Val::List(Rc::new(parts)))
}
