//! Canonical forms of numbers, times and quantities.

use jiff::Timestamp;
use serde_json::{Value, json};

/// `3.0` is 3 for an integer.
pub(super) fn whole_number(value: &mut Value) {
    if let Value::Number(number) = value
        && !number.is_i64()
        && let Some(float) = number.as_f64()
        && float.fract() == 0.0
        && float.abs() < 9e15
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
        let whole = float as i64;
        *value = json!(whole);
    }
}

/// Whole seconds, in UTC.
pub(super) fn time(value: &mut Value) {
    if let Some(time) = parse(value) {
        *value = json!(crate::clock::format_seconds(time));
    }
}

/// Six decimals, in UTC.
pub(super) fn micro_time(value: &mut Value) {
    if let Some(time) = parse(value) {
        *value = json!(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
    }
}

fn parse(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// As few digits as possible before the largest suffix that needs no fraction.
pub(super) fn quantity(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Some(canonical) = canonical_quantity(&text) {
        *value = json!(canonical);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Suffix {
    Decimal,
    Binary,
    Exponent,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// What a quantity says: a number, a power of ten to multiply it with, and how it was written.
struct Amount {
    negative: bool,
    mantissa: i128,
    exponent: i32,
    kind: Suffix,
}

/// A quantity in billionths, which compares as the amounts do. `None` for what is no quantity, or out of all reason.
pub(super) fn quantity_value(value: &Value) -> Option<i128> {
    let amount = parse_quantity(value.as_str()?)?;
    let power = 10i128.checked_pow(u32::try_from(amount.exponent + 9).ok()?)?;
    let value = amount.mantissa.checked_mul(power)?;
    Some(if amount.negative { -value } else { value })
}

/// `None` for what is no quantity, or has more digits than are of use to anyone.
fn parse_quantity(text: &str) -> Option<Amount> {
    let (negative, unsigned) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 18 || fraction.contains('.') {
        return None;
    }
    let mut mantissa: i128 = digits.parse().ok()?;
    let mut exponent = -i32::try_from(fraction.len()).ok()?;
    let mut kind = Suffix::Decimal;
    if let Some(place) = BINARY.iter().position(|known| *known == suffix) {
        kind = Suffix::Binary;
        mantissa = mantissa.checked_mul(1i128.checked_shl(10 * (u32::try_from(place).ok()? + 1))?)?;
    } else if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        exponent += power;
    } else {
        let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        kind = Suffix::Exponent;
        exponent = exponent.checked_add(power).filter(|power| power.abs() < 18)?;
    }
    // Nothing is smaller than a billionth; what is, is rounded away from zero.
    while exponent < -9 {
        mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        exponent += 1;
    }
    Some(Amount { negative, mantissa, exponent, kind })
}

fn canonical_quantity(text: &str) -> Option<String> {
    let Amount { negative, mut mantissa, mut exponent, kind } = parse_quantity(text)?;
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    let sign = if negative { "-" } else { "" };
    if kind == Suffix::Binary
        && exponent >= 0
        && let Some(value) =
            10i128.checked_pow(exponent.unsigned_abs()).and_then(|power| mantissa.checked_mul(power))
        && value >= 1024
    {
        let (mut value, mut place) = (value, 0);
        while value % 1024 == 0 && place < BINARY.len() {
            value /= 1024;
            place += 1;
        }
        let suffix = place.checked_sub(1).map_or("", |place| BINARY[place]);
        return Some(format!("{sign}{value}{suffix}"));
    }
    while exponent.rem_euclid(3) != 0 {
        mantissa = mantissa.checked_mul(10)?;
        exponent -= 1;
    }
    while kind != Suffix::Exponent && exponent > 18 {
        mantissa = mantissa.checked_mul(1000)?;
        exponent -= 3;
    }
    if kind == Suffix::Exponent && exponent != 0 {
        return Some(format!("{sign}{mantissa}e{exponent}"));
    }
    let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
    Some(format!("{sign}{mantissa}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("123456", "123456"),
            ("1000000", "1M"),
            ("-100M", "-100M"),
            ("+2", "2"),
            ("1e3", "1e3"),
            ("100e1", "1e3"),
            ("1E6", "1e6"),
            ("0.0000000001", "1n"),
            ("12.30", "12300m"),
        ] {
            assert_eq!(canonical_quantity(text).as_deref(), Some(canonical), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_what_they_amount_to() {
        for (less, more) in [("999m", "1"), ("1k", "1Ki"), ("-1", "0"), ("1n", "1u"), ("2e3", "2001")] {
            assert!(quantity_value(&json!(less)) < quantity_value(&json!(more)), "{less} {more}");
        }
        assert_eq!(quantity_value(&json!("0.5Gi")), quantity_value(&json!("512Mi")));
        assert_eq!(quantity_value(&json!("x")), None);
    }

    #[test]
    fn what_is_no_quantity_has_no_form() {
        for text in ["", "x", "1x", "1.2.3", "e3", "1Kib", "12345678901234567890123"] {
            assert_eq!(canonical_quantity(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_quantities_panic(text in "[+-]?[0-9.]{0,24}[a-zA-Z0-9-]{0,4}") {
            if let Some(canonical) = canonical_quantity(&text) {
                proptest::prop_assert_eq!(canonical_quantity(&canonical), Some(canonical.clone()));
            }
        }
    }
}
