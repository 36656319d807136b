//! Durations as Go writes them, and as OpenAPI's format `duration` admits them.

use jiff::SignedDuration;

use super::quote;

/// Parses a duration as Go's `time.ParseDuration`, such as `1h15m30.5s`.
///
/// # Errors
/// Go's message.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds: i128 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let scale: i128 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text))),
        };
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        // Digits after the eighteenth amount to less than a nanosecond in every unit.
        let kept = &fraction[..fraction.len().min(18)];
        let part =
            kept.parse::<i128>().unwrap_or(0) * scale / 10i128.pow(u32::try_from(kept.len()).unwrap_or(0));
        nanoseconds += i128::from(whole) * scale + part;
        if nanoseconds > i128::from(i64::MAX) {
            return Err(invalid());
        }
        rest = after;
    }
    let nanoseconds = i64::try_from(nanoseconds).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(if negative { -nanoseconds } else { nanoseconds }))
}

/// Units of OpenAPI's format `duration`: the short names, the prefix of all long names (`sec` for `seconds`), and the nanoseconds.
const LOOSE_UNITS: [(&[&str], &str, i64); 8] = [
    (&["ns"], "nano", 1),
    (&["us", "µs"], "micro", 1_000),
    (&["ms"], "milli", 1_000_000),
    (&["s"], "sec", 1_000_000_000),
    (&["m"], "min", 60_000_000_000),
    (&["h", "hr"], "hour", 3_600_000_000_000),
    (&["d"], "day", 86_400_000_000_000),
    (&["w", "wk"], "week", 604_800_000_000_000),
];

/// Parses a text of OpenAPI's format `duration` like `strfmt.ParseDuration`; returns nanoseconds. A text that is not in Go's form is
/// searched for numbers with units; all other parts of the text are ignored, so `P1D` is a day.
///
/// # Errors
/// Go's message.
pub fn loose_duration(text: &str) -> Result<i64, String> {
    if let Some(parsed) = duration(text).ok().and_then(|parsed| i64::try_from(parsed.as_nanos()).ok()) {
        return Ok(parsed);
    }
    let mut sum: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let (number, after) = number.split_at(number.bytes().take_while(u8::is_ascii_digit).count());
        rest = after;
        let unit = after.trim_start_matches([' ', '\t', '\n', '\x0c', '\r']);
        let end = unit.find(|c: char| c != 'µ' && !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        if end == 0 {
            continue;
        }
        let (unit, after) = unit.split_at(end);
        rest = after;
        let factor: i64 = number
            .parse()
            .map_err(|_| format!("strconv.Atoi: parsing {}: value out of range", quote(number)))?;
        let unit = unit.to_lowercase();
        for (short, long, scale) in LOOSE_UNITS {
            if short.contains(&unit.as_str()) || unit.starts_with(long) {
                // Go's arithmetic wraps.
                sum = Some(sum.unwrap_or(0).wrapping_add(factor.wrapping_mul(scale)));
            }
        }
    }
    sum.ok_or_else(|| format!("unable to parse {text} as duration"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("0", 0),
            ("10s", 10_000),
            ("1.5h", 5_400_000),
            (".5m", 30_000),
            ("1m.5s", 60_500),
            ("-250ms", -250),
            ("+3us2ms", 2),
            ("1h0m0s", 3_600_000),
        ] {
            assert_eq!(duration(text).map(|read| read.as_millis()), Ok(milliseconds), "{text}");
        }
        for (text, why) in [
            ("", "time: invalid duration \"\""),
            ("invalid", "time: invalid duration \"invalid\""),
            ("10", "time: missing unit in duration \"10\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("3000000h", "time: invalid duration \"3000000h\""),
        ] {
            assert_eq!(duration(text), Err(why.to_owned()), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.a-zµμ]{0,24}|\\PC{0,12}") {
            let _ = duration(&text);
        }
    }

    /// Checked against kube-apiserver v1.36.3 as values of a custom kind with a field of this format.
    #[test]
    fn loose_durations_are_numbers_with_units_anywhere_in_the_text() {
        for (text, seconds) in [
            ("1h1", Some(3_600)),
            ("P1D", Some(86_400)),
            ("1 day", Some(86_400)),
            ("2 hours", Some(7_200)),
            ("1w", Some(604_800)),
            ("-1s", Some(-1)),
            ("1", None),
            ("", None),
            ("1 year", None),
        ] {
            let parsed = loose_duration(text).ok().map(|nanoseconds| nanoseconds / 1_000_000_000);
            assert_eq!(parsed, seconds, "{text}");
        }
    }
}
