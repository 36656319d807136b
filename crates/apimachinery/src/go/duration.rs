//! Durations as Go writes them.

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
}
