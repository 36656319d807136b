//! Lists of a Job's completed or failed indexes, in their text form, such as `1,3-5`.

use kube_apimachinery::go;

/// Checks that each index is below `completions`, and that indexes increase.
pub(super) fn check_indexes(indexes: &str, completions: i64) -> Result<(), String> {
    if indexes.is_empty() {
        return Ok(());
    }
    let mut last = None;
    for part in indexes.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        last = Some(end);
    }
    Ok(())
}

/// Parses an index, or two with `-` between them.
fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = text.split('-').collect();
    if parts.len() > 2 {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go::quote(text)
        ));
    }
    // A negative index cannot occur: the hyphen separates the ends of an interval.
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", go::quote(text))),
        Ok(index) if index >= completions => Err(format!("too large index: {}", go::quote(text))),
        Ok(index) => Ok(index),
    };
    let first = index(parts[0])?;
    let Some(last) = parts.get(1) else {
        return Ok((first, first));
    };
    let last = index(last)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

/// Returns an index that is in both lists. Intervals that do not parse are skipped. Both lists are walked once.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((first, last)), Some((other_first, other_last))) = (completed.peek(), failed.peek()) {
        if first <= other_last && other_first <= last {
            return Some(*first.max(other_first));
        }
        // The two intervals do not overlap, so the one that starts first also ends first.
        if first <= other_first {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}
