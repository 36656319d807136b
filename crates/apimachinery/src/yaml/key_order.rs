//! The order of keys in Go's YAML library: natural order, so that `file2` comes before `file10`.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};
use serde_json::{Map, Value};

/// Returns the fields of an object in the order of the library.
pub(super) fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    if fields.len() < 2 {
        return fields.iter().collect();
    }
    let mut sorted: Vec<_> =
        fields.iter().map(|field| (field.0.chars().collect::<Vec<char>>(), field)).collect();
    if sorted.is_sorted_by(|a, b| is_before(&a.0, &b.0)) {
        return fields.iter().collect();
    }
    merge_sort(&mut sorted, &|a, b| is_before(&a.0, &b.0));
    sorted.into_iter().map(|(_, field)| field).collect()
}

/// Sorts by an order that is not total: `2` precedes `021`, `021` precedes `0b`, and `0b` precedes `2`. The sort of the standard library may
/// panic then. The result of Go's library differs from call to call for such keys, because it depends on the random order of a map.
fn merge_sort<T>(items: &mut Vec<T>, is_before: &impl Fn(&T, &T) -> bool) {
    if items.len() < 2 {
        return;
    }
    let mut right = items.split_off(items.len() / 2);
    merge_sort(items, is_before);
    merge_sort(&mut right, is_before);
    let mut left = std::mem::take(items).into_iter().peekable();
    let mut right = right.into_iter().peekable();
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        items.extend(if is_before(b, a) { right.next() } else { left.next() });
    }
    items.extend(left.chain(right));
}

/// Whether `a` comes before `b`. Digits are compared as numbers, and letters come after other characters.
fn is_before(a: &[char], b: &[char]) -> bool {
    let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) else {
        return a.len() < b.len();
    };
    let (x, y) = (a[at], b[at]);
    match (is_letter(x), is_letter(y)) {
        (true, true) => return x < y,
        (false, false) => {}
        (_, is_letter) => return is_letter,
    }
    // After a digit other than zero, a zero is not a leading zero. Both numbers then begin with 1, so that their zeros count.
    let follows_digit = || {
        let before = a[..at].iter().rev().take_while(|c| is_digit(**c));
        before.into_iter().any(|c| *c != '0')
    };
    let start = i64::from((x == '0' || y == '0') && follows_digit());
    let ((m, m_end), (n, n_end)) = (number(a, at, start), number(b, at, start));
    m.cmp(&n).then(m_end.cmp(&n_end)).then(x.cmp(&y)) == Ordering::Less
}

/// Reads the digits from `at`, after the digits `start`. Returns their number and their end.
fn number(key: &[char], at: usize, start: i64) -> (i64, usize) {
    let digits = key[at..].iter().take_while(|c| is_digit(**c));
    let (mut value, mut end) = (start, at);
    for digit in digits {
        value = value.wrapping_mul(10).wrapping_add(i64::from(u32::from(*digit)) - i64::from(b'0'));
        end += 1;
    }
    (value, end)
}

fn is_letter(c: char) -> bool {
    static LETTERS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| ranges(r"\p{L}"));
    if c.is_ascii() { c.is_ascii_alphabetic() } else { contains(&LETTERS, c) }
}

fn is_digit(c: char) -> bool {
    static DIGITS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| ranges(r"\p{Nd}"));
    if c.is_ascii() { c.is_ascii_digit() } else { contains(&DIGITS, c) }
}

fn contains(ranges: &[(char, char)], c: char) -> bool {
    let next = ranges.partition_point(|(first, _)| *first <= c);
    next > 0 && c <= ranges[next - 1].1
}

/// Returns the ranges of a Unicode category.
fn ranges(category: &str) -> Vec<(char, char)> {
    match regex_syntax::parse(category).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start(), range.end())).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &[&str]) {
        let fields: Map<String, Value> =
            expected.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        let keys: Vec<&str> = sorted(&fields).into_iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn numbers_in_keys_are_compared_as_numbers() {
        check(&["file1", "file2", "file10", "file010", "file11"]);
        check(&["a1", "a01", "a001", "a2", "a100", "a0100"]);
        check(&["a9", "a10", "a19", "a100", "a190", "a1000"]);
    }

    #[test]
    fn letters_come_after_other_characters() {
        check(&["", "-", ".5", "_", "0", "1e3", "A", "a", "a-b", "a.b", "a_b", "a0", "aB", "ab", "é"]);
        check(&["²", "\u{903}", "\u{660}", "ª"]);
    }

    #[test]
    fn categories_are_known() {
        assert!(is_letter('é') && is_letter('中') && !is_letter('\u{903}') && !is_letter('Ⅻ'));
        assert!(is_digit('\u{663}') && !is_digit('²'));
    }

    #[test]
    fn numbers_that_overflow_do_not_panic() {
        let keys =
            (0..200_u64).map(|n| format!("{}{}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15), u64::MAX / (n + 1)));
        let fields: Map<String, Value> = keys.map(|key| (key, Value::Null)).collect();
        assert_eq!(sorted(&fields).len(), fields.len());
    }
}
