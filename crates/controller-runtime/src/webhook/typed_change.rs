//! Changes of a typed object, applied to the JSON it was decoded from. Pure.
//!
//! A Rust type may know fewer fields than the API server, because it is older than the cluster or leaves fields out. Replacing the
//! raw JSON by the encoded object would delete these fields. So the difference between the typed object before and after is applied
//! to the raw JSON, and everything else stays as it was.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Applies the change from `before` to `after` to `raw`, from which `before` was decoded.
pub(super) fn apply(raw: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return raw.clone();
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            Value::Object(apply_to_fields(raw, before, after))
        }
        // Elements of `raw` and `before` correspond only if decoding kept all of them.
        (Value::Array(raw), Value::Array(before), Value::Array(after)) if raw.len() == before.len() => {
            Value::Array(apply_to_elements(raw, before, after))
        }
        _ => after.clone(),
    }
}

fn apply_to_fields(
    raw: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut changed = raw.clone();
    for (key, new) in after {
        match (before.get(key), raw.get(key)) {
            (Some(old), _) if old == new => {}
            (Some(old), Some(field)) => {
                changed.insert(key.clone(), apply(field, old, new));
            }
            _ => {
                changed.insert(key.clone(), new.clone());
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        changed.remove(key);
    }
    changed
}

/// Applies the changes of a list. Each new element is compared with its origin: an equal element, or else one
/// with the same `name`. An element without a name, in a list of unchanged length, is compared with the element at its index.
fn apply_to_elements(raw: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let mut by_text: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    // In reverse order: of equal elements the first is popped first, and of elements with one name the first remains in the map.
    for (index, element) in before.iter().enumerate().rev() {
        by_text.entry(element.to_string()).or_default().push(index);
        by_name.extend(name(element).map(|name| (name, index)));
    }
    let mut origin_of = |index: usize, element: &Value| {
        let equal = by_text.get_mut(&element.to_string()).and_then(Vec::pop);
        let same_name = || name(element).and_then(|name| by_name.get(name).copied());
        let same_index = || (before.len() == after.len() && name(element).is_none()).then_some(index);
        equal.or_else(same_name).or_else(same_index)
    };
    let origins: Vec<_> =
        after.iter().enumerate().map(|(index, element)| origin_of(index, element)).collect();
    let changed = |(element, origin): (&Value, Option<usize>)| match origin {
        Some(origin) => apply(&raw[origin], &before[origin], element),
        None => element.clone(),
    };
    after.iter().zip(origins).map(changed).collect()
}

fn name(element: &Value) -> Option<&str> {
    element.get("name")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the result for texts of YAML flow style, such as `{a: 1}`.
    #[track_caller]
    fn check(raw: &str, before: &str, after: &str, expected: &str) {
        let parse = |text: &str| serde_saphyr::from_str::<Value>(text).expect("YAML");
        let changed = apply(&parse(raw), &parse(before), &parse(after));
        assert_eq!(changed, parse(expected), "raw {raw}, before {before}, after {after}");
    }

    #[test]
    fn fields_that_the_type_does_not_know_survive() {
        check("{a: 1, x: 9}", "{a: 1}", "{a: 2}", "{a: 2, x: 9}");
        check("{s: {a: 1, x: 9}, y: 8}", "{s: {a: 1}}", "{s: {a: 1, b: 2}}", "{s: {a: 1, b: 2, x: 9}, y: 8}");
        check("{a: 1, x: 9}", "{a: 1}", "{}", "{x: 9}");
    }

    #[test]
    fn values_that_the_type_fills_in_are_not_written_unless_they_change() {
        check("{}", "{replicas: 0}", "{replicas: 0}", "{}");
        check("{}", "{replicas: 0, size: 1}", "{replicas: 3, size: 1}", "{replicas: 3}");
        check("{a: null, labels: {}}", "{}", "{b: 1}", "{a: null, labels: {}, b: 1}");
    }

    #[test]
    fn elements_of_lists_keep_their_unknown_fields() {
        check(
            "[{name: a, x: 1}, {name: b, x: 2}]",
            "[{name: a}, {name: b}]",
            "[{name: b}, {name: a}]",
            "[{name: b, x: 2}, {name: a, x: 1}]",
        );
        check(
            "[{name: a, x: 1}]",
            "[{name: a}]",
            "[{name: new}, {name: a, y: 2}]",
            "[{name: new}, {name: a, x: 1, y: 2}]",
        );
        check("[{a: 1, x: 1}, {a: 2, x: 2}]", "[{a: 1}, {a: 2}]", "[{a: 2}]", "[{a: 2, x: 2}]");
        check(
            "[{a: 1, x: 1}, {a: 2, x: 2}]",
            "[{a: 1}, {a: 2}]",
            "[{a: 1}, {a: 3}]",
            "[{a: 1, x: 1}, {a: 3, x: 2}]",
        );
        check(
            "[{a: 1, x: 1}, {a: 1, x: 2}]",
            "[{a: 1}, {a: 1}]",
            "[{a: 1}, {a: 1}, {a: 1}]",
            "[{a: 1, x: 1}, {a: 1, x: 2}, {a: 1}]",
        );
        check("[1, 2, bad]", "[1, 2]", "[1, 3]", "[1, 3]");
    }

    #[test]
    fn a_value_of_another_type_is_replaced() {
        check("{a: 1}", "{a: 1}", "{a: {b: 2}}", "{a: {b: 2}}");
        check("{a: [1]}", "{a: [1]}", "{a: null}", "{a: null}");
    }
}
