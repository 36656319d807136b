//! Types of plain YAML texts in Go's YAML library, which reads YAML 1.1.
//!
//! A string that would be read as a number, boolean, time or null is written in quotes.

/// Texts with a type of their own, apart from numbers and times. The library looks up only texts that begin with one of [`HINTS`].
const WORDS: [&str; 35] = [
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
    "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF", "+.inf", "-.inf",
];
/// Further spellings of signed infinities.
const SIGNED_INFINITIES: [&str; 4] = ["+.Inf", "+.INF", "-.Inf", "-.INF"];

/// Value of a plain text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PlainValue {
    Null,
    Bool(bool),
    /// An integer of 64 bits, signed or unsigned.
    Integer(i128),
    Float(f64),
    Text(String),
}

impl PlainValue {
    /// Returns the name of the tag that stands for the type.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Integer(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
        }
    }
}

/// Reads a plain text. Times and numbers to base 60 remain texts.
pub(super) fn value(text: &str) -> PlainValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return PlainValue::Null,
        ".nan" | ".NaN" | ".NAN" => return PlainValue::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return PlainValue::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return PlainValue::Float(f64::NEG_INFINITY),
        word if WORDS.contains(&word) => {
            let is_true =
                matches!(word.as_bytes(), [b'y' | b'Y' | b't' | b'T', ..] | [b'o' | b'O', b'n' | b'N']);
            return PlainValue::Bool(is_true);
        }
        _ => {}
    }
    let number = match text.bytes().next() {
        Some(b'.') if is_fraction(text) => float(&text.replace('_', "")),
        Some(b'+' | b'-' | b'0'..=b'9') if !is_timestamp(text) => {
            let plain = text.replace('_', "");
            integer(&plain)
                .or_else(|| is_decimal(&plain).then(|| float(&plain)).flatten())
                .or_else(|| binary_with_inner_sign(&plain))
        }
        _ => None,
    };
    number.unwrap_or_else(|| PlainValue::Text(text.to_owned()))
}

fn float(text: &str) -> Option<PlainValue> {
    text.parse().ok().map(PlainValue::Float)
}

/// Whether a plain text is read as a string, both by the library and by other readers of YAML 1.1, which know numbers to base 60.
pub(super) fn is_string(text: &str) -> bool {
    !(WORDS.contains(&text)
        || SIGNED_INFINITIES.contains(&text)
        || is_number(text)
        || is_timestamp(text)
        || is_sexagesimal(text))
}

fn is_number(text: &str) -> bool {
    match text.bytes().next() {
        Some(b'.') => is_fraction(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let plain = text.replace('_', "");
            integer(&plain).is_some() || is_decimal(&plain) || binary_with_inner_sign(&plain).is_some()
        }
        _ => false,
    }
}

/// Reads an integer of 64 bits as in Go source code, with a prefix of its base or none. Unsigned ones have no sign.
fn integer(text: &str) -> Option<PlainValue> {
    let (sign, digits) = match text.as_bytes() {
        [b'+', ..] => (Some(1_i128), &text[1..]),
        [b'-', ..] => (Some(-1), &text[1..]),
        _ => (None, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        // As in YAML 1.1, `0755` is octal.
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    let value = i128::from_str_radix(digits, base).ok()?;
    // Go tries `ParseInt`, and then `ParseUint`, which accepts no sign.
    let value = match sign {
        Some(sign) => i128::from(i64::try_from(value * sign).ok()?),
        None => i128::from(u64::try_from(value).ok()?),
    };
    Some(PlainValue::Integer(value))
}

/// Reads a binary number with a sign after its prefix, such as `0b-1`, which the library accepts.
fn binary_with_inner_sign(text: &str) -> Option<PlainValue> {
    let number = text.strip_prefix("0b").filter(|rest| rest.starts_with(['+', '-']))?;
    i64::from_str_radix(number, 2).ok().map(|value| PlainValue::Integer(i128::from(value)))
}

/// Whether the text is a decimal number, with a fraction, an exponent, both or none, that a float of 64 bits can hold.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let has_whole = whole.len() < unsigned.len();
    let (has_fraction, rest) = match whole.strip_prefix('.') {
        Some(rest) => {
            let rest_after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            (rest_after.len() < rest.len(), rest_after)
        }
        None => (false, whole),
    };
    (has_whole || has_fraction) && is_exponent(rest) && fits(text)
}

/// Whether a text that begins with a point is a number. Underscores stand between digits.
fn is_fraction(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_digit);
    let well_placed = (0..bytes.len()).all(|at| {
        bytes[at] != b'_' || (is_digit(bytes.get(at.wrapping_sub(1))) && is_digit(bytes.get(at + 1)))
    });
    let plain = text.replace('_', "");
    let rest = plain[1..].trim_start_matches(|c: char| c.is_ascii_digit());
    well_placed && rest.len() + 1 < plain.len() && is_exponent(rest) && fits(&plain)
}

/// Whether the text is an exponent or empty.
fn is_exponent(text: &str) -> bool {
    let Some(exponent) = text.strip_prefix(['e', 'E']) else {
        return text.is_empty();
    };
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Whether the number is in the range of a float of 64 bits.
fn fits(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether the text is a date, or a date with a time, such as `2006-1-2`, `2006-01-02T15:04:05Z` or `2006-01-02 15:04:05.9`.
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut rest = Rest(text.as_bytes());
    let Some(year) = rest.number(4, 4) else { return false };
    let date = |rest: &mut Rest<'_>| {
        rest.expect(b'-')?;
        let month = rest.number(1, 2).filter(|month| (1..=12).contains(month))?;
        rest.expect(b'-')?;
        let day = rest.number(1, 2).filter(|day| (1..=days(year, month)).contains(day))?;
        Some(day)
    };
    if date(&mut rest).is_none() {
        return false;
    }
    match rest.0 {
        [] => true,
        [b'T' | b't', after @ ..] => {
            rest.0 = after;
            clock(&mut rest).and_then(|()| zone(&mut rest)).is_some() && rest.0.is_empty()
        }
        [b' ', ..] => {
            rest.0 = rest.0.trim_ascii_start();
            clock(&mut rest).is_some() && rest.0.is_empty()
        }
        _ => false,
    }
}

/// Unread bytes of a time.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Reads a number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let digits = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        let value = number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        (digits >= least).then_some(value)
    }
}

/// Reads hours, minutes and seconds, with a fraction of any length.
fn clock(rest: &mut Rest<'_>) -> Option<()> {
    rest.number(1, 2).filter(|hour| *hour < 24)?;
    rest.expect(b':')?;
    rest.number(1, 2).filter(|minute| *minute < 60)?;
    rest.expect(b':')?;
    rest.number(1, 2).filter(|second| *second < 60)?;
    if let [b'.' | b',', digit, ..] = rest.0
        && digit.is_ascii_digit()
    {
        let digits = rest.0[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest.0 = &rest.0[1 + digits..];
    }
    Some(())
}

/// Reads `Z` or an offset such as `+01:00`. Go accepts 24 hours and 60 minutes.
fn zone(rest: &mut Rest<'_>) -> Option<()> {
    match rest.0 {
        [b'Z', ..] => rest.expect(b'Z'),
        [b'+' | b'-', after @ ..] => {
            rest.0 = after;
            rest.number(2, 2).filter(|hours| *hours <= 24)?;
            rest.expect(b':')?;
            rest.number(2, 2).filter(|minutes| *minutes <= 60)?;
            Some(())
        }
        _ => None,
    }
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Whether the text is a number to base 60, such as `1:30` or `-1:02:03.5`.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (places, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut places = places.split(':');
    let first = places.next().unwrap_or_default();
    let is_place = |place: &str| match place.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
        _ => false,
    };
    let is_counted = |c: u8| c.is_ascii_digit() || c == b'_';
    let mut others = places.peekable();
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(is_counted)
        && fraction.bytes().all(is_counted)
        && others.peek().is_some()
        && others.all(is_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_go_reads_as_other_types() {
        for text in [
            "",
            "~",
            "y",
            "NULL",
            "Off",
            ".inf",
            "-.INF",
            "0",
            "-0",
            "+1",
            "1_000",
            "0x1F",
            "0X_f",
            "017",
            "0o17",
            "08",
            "0b101",
            "-0b1",
            "0b-1",
            "18446744073709551615",
            "18446744073709551616",
            "1.",
            ".5",
            ".5e3",
            ".5_0",
            "-.5",
            "1e3",
            "1E-3",
            "1.5",
            "1_.5",
            "2024-1-2",
            "2024-02-29",
            "2024-01-02T03:04:05Z",
            "2024-01-02t3:4:5.123456789123+24:60",
            "2024-01-02   03:04:05,5",
            "1:30",
            "-1:02:03.5",
            "1_0:59",
            "0xffffffffffffffff",
        ] {
            assert!(!is_string(text), "{text:?}");
        }
    }

    #[test]
    fn texts_that_go_reads_as_strings() {
        for text in [
            "=",
            "<<",
            "0x",
            "0xg",
            "0o8",
            "0b2",
            "1e400",
            ".5_",
            "._5",
            ".",
            "-",
            "+",
            "..5",
            "1.2.3",
            "1e",
            "e3",
            "yEs",
            "2024-13-01",
            "2023-02-29",
            "2024-01-02T03:04:05",
            "2024-01-02 03:04:05Z",
            "24-01-02",
            "1:60",
            "1:2x",
            "1:",
            "0xffffffffffffffff0",
            "-0xffffffffffffffff",
            ".nAn",
            "nan",
            "inf",
            "1 2",
            "0b",
            "infinity",
        ] {
            assert!(is_string(text), "{text:?}");
        }
    }
}
