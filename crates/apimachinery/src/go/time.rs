//! Times as Go's `time.Parse` reads them, with its error messages.

use std::ops::RangeInclusive;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Format of a time type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `metav1.Time`: RFC 3339. Written in whole seconds, read with any fraction of a second.
    Seconds,
    /// `metav1.MicroTime`: RFC 3339 with exactly six decimals.
    Micros,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Parses a time. As in Go, the hour may have one digit, and a comma may replace the decimal point. Digits below
/// nanoseconds are ignored.
///
/// # Errors
///
/// Go's message, which names the part of the layout that the rest of `text` does not match, or the part that is out of range. Unlike in Go,
/// a time is out of range if its offset moves it to a year without four digits.
pub fn time(text: &str, layout: Layout) -> Result<Timestamp, String> {
    let mut reader = TimeParser { text, layout, rest: text.as_bytes() };
    let year = reader.year()?;
    reader.skip("-")?;
    let month = reader.number("01", "month", 1..=12)?;
    reader.skip("-")?;
    let day = reader.number("02", "day", 0..=99)?;
    reader.skip("T")?;
    let hour = reader.number("15", "hour", 0..=23)?;
    reader.skip(":")?;
    let minute = reader.number("04", "minute", 0..=59)?;
    reader.skip(":")?;
    let second = reader.number("05", "second", 0..=59)?;
    let nanosecond = match layout {
        Layout::Seconds => reader.any_fraction(),
        Layout::Micros => reader.six_decimals()?,
    };
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text.as_bytes()), quote(reader.rest)));
    }
    // The day is checked last, because the length of a month depends on the year.
    let date = Date::new(year, month, day).map_err(|_| reader.out_of_range("day"))?;
    let local = Time::new(hour, minute, second, nanosecond).map(|time| DateTime::from_parts(date, time));
    let moment = local.and_then(|local| TimeZone::UTC.to_timestamp(local)?.checked_sub(offset));
    moment.map_err(|_| reader.out_of_range("year"))
}

/// Rest of the text to parse.
struct TimeParser<'a> {
    text: &'a str,
    layout: Layout,
    rest: &'a [u8],
}

impl TimeParser<'_> {
    fn year(&mut self) -> Result<i16, String> {
        let Some((digits, rest)) = self.rest.split_at_checked(4) else {
            return Err(self.no("2006"));
        };
        let year = digits.iter().try_fold(0, |year, digit| Some(10 * year + i16::from(value(*digit)?)));
        let year = year.ok_or_else(|| self.no("2006"))?;
        self.rest = rest;
        Ok(year)
    }

    fn skip(&mut self, separator: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(separator.as_bytes()).ok_or_else(|| self.no(separator))?;
        Ok(())
    }

    /// Parses a part of two digits; an hour may have one digit.
    fn number(&mut self, part: &str, name: &str, range: RangeInclusive<i8>) -> Result<i8, String> {
        let digit = |at: usize| self.rest.get(at).and_then(|byte| value(*byte));
        let (number, length) = match (digit(0), digit(1)) {
            (Some(tens), Some(ones)) => (10 * tens + ones, 2),
            (Some(ones), None) if part == "15" => (ones, 1),
            _ => return Err(self.no(part)),
        };
        if !range.contains(&number) {
            return Err(self.out_of_range(name));
        }
        self.rest = &self.rest[length..];
        Ok(number)
    }

    /// Parses an optional fraction of a second; returns nanoseconds.
    fn any_fraction(&mut self) -> i32 {
        let [b'.' | b',', after @ ..] = self.rest else {
            return 0;
        };
        let length = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = after.split_at(length);
        if length > 0 {
            self.rest = rest;
        }
        nanoseconds(digits)
    }

    fn six_decimals(&mut self) -> Result<i32, String> {
        match self.rest.split_at_checked(7) {
            Some(([b'.' | b',', digits @ ..], rest)) if digits.iter().all(u8::is_ascii_digit) => {
                self.rest = rest;
                Ok(nanoseconds(digits))
            }
            _ => Err(self.no(".000000")),
        }
    }

    /// Parses `Z` or the offset from UTC.
    fn offset(&mut self) -> Result<SignedDuration, String> {
        if let [b'Z', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(SignedDuration::ZERO);
        }
        let no = || self.no("Z07:00");
        let [sign, h1, h2, b':', m1, m2, rest @ ..] = self.rest else {
            return Err(no());
        };
        let two = |tens: u8, ones: u8| Some(10 * i64::from(value(tens)?) + i64::from(value(ones)?));
        let hours = two(*h1, *h2).ok_or_else(no)?;
        // Go accepts offsets of 24 hours and of 60 minutes.
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        let minutes = two(*m1, *m2).ok_or_else(no)?;
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        let ahead = SignedDuration::from_mins(60 * hours + minutes);
        let offset = match sign {
            b'+' => ahead,
            b'-' => -ahead,
            _ => return Err(no()),
        };
        self.rest = rest;
        Ok(offset)
    }

    /// Builds the error for a text that does not match this part of the layout.
    fn no(&self, part: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text.as_bytes()),
            quote(self.layout.text().as_bytes()),
            quote(self.rest),
            quote(part.as_bytes())
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text.as_bytes()))
    }
}

/// Returns the value of a digit.
fn value(digit: u8) -> Option<i8> {
    digit.is_ascii_digit().then(|| (digit - b'0').cast_signed())
}

/// Converts the digits of a fraction to nanoseconds; digits after the ninth are ignored.
fn nanoseconds(digits: &[u8]) -> i32 {
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    padded.fold(0, |sum, digit| 10 * sum + i32::from(value(digit).unwrap_or(0)))
}

/// Quotes like Go's package `time`: bytes that are not printable ASCII are escaped one by one.
fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for &byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            _ => quoted += &format!("\\x{byte:02x}"),
        }
    }
    quoted + "\""
}

/// Formats a time as Go's `metav1.Time`: RFC 3339 in whole seconds.
#[must_use]
pub fn format_seconds(time: Timestamp) -> String {
    // The fraction is negative before 1970, and `as_second` rounds towards it.
    let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    Timestamp::from_second(seconds).map_or_else(|_| time.to_string(), |time| time.to_string())
}

/// Whether [`format_seconds`] would return the same text for a valid time, as for `2026-01-02T03:04:05Z`. For a leap second it would not: the
/// time is read as the second before.
#[must_use]
pub fn is_in_seconds(time: &str) -> bool {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    let is_in_form = |(place, byte): (usize, u8)| match separators.iter().find(|(at, _)| *at == place) {
        Some((_, separator)) => byte == *separator,
        None => byte.is_ascii_digit(),
    };
    time.len() == 20 && time.bytes().enumerate().all(is_in_form) && &time[17..19] != "60"
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Layout; 2] = [Layout::Seconds, Layout::Micros];

    #[test]
    fn seconds_are_formatted_without_their_fraction() {
        for (time, formatted) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00.000000001Z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(format_seconds(time.parse().unwrap()), formatted, "{time}");
        }
    }

    #[test]
    fn a_time_in_seconds_is_its_own_text() {
        for (time, expected) in [
            ("2026-01-02T03:04:05Z", true),
            ("0001-01-01T00:00:00Z", true),
            ("2016-12-31T23:59:60Z", false),
            ("2026-01-02T03:04:05.0Z", false),
            ("2026-01-02t03:04:05z", false),
            ("2026-01-02 03:04:05Z", false),
            ("20260102T030405.000Z", false),
            ("2026-01-02T03:04:05+00:00", false),
        ] {
            let is_own_text = time.parse().is_ok_and(|parsed: Timestamp| format_seconds(parsed) == time);
            assert_eq!((is_in_seconds(time), is_own_text), (expected, expected), "{time}");
        }
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (layout, text, read) in [
            (Layout::Seconds, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            (Layout::Seconds, "2026-01-02T03:04:05+01:00", "2026-01-02T02:04:05Z"),
            (Layout::Seconds, "2026-01-02T03:04:05-24:60", "2026-01-03T04:04:05Z"),
            (Layout::Seconds, "2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
            (Layout::Seconds, "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.5Z"),
            (Layout::Seconds, "2026-01-02T03:04:05,0123456789Z", "2026-01-02T03:04:05.012345678Z"),
            (Layout::Seconds, "2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            (Layout::Seconds, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            (Layout::Micros, "2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05.678901Z"),
            (Layout::Micros, "2026-01-02T3:04:05,000001+01:00", "2026-01-02T02:04:05.000001Z"),
        ] {
            assert_eq!(time(text, layout).map(|time| time.to_string()), Ok(read.to_owned()), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_time_is_refused_with_gos_message() {
        let cannot = |layout: Layout, text: &str, rest: &str, part: &str| {
            let expected = format!(
                "parsing time \"{text}\" as \"{}\": cannot parse \"{rest}\" as \"{part}\"",
                layout.text()
            );
            assert_eq!(time(text, layout), Err(expected));
        };
        for layout in BOTH {
            cannot(layout, "", "", "2006");
            cannot(layout, "now", "now", "2006");
            cannot(layout, "+026-01-02T03:04:05Z", "+026-01-02T03:04:05Z", "2006");
            cannot(layout, "2026", "", "-");
            cannot(layout, "2026-1-02T03:04:05Z", "1-02T03:04:05Z", "01");
            cannot(layout, "2026-01-02", "", "T");
            cannot(layout, "2026-01-02 03:04:05Z", " 03:04:05Z", "T");
            cannot(layout, "2026-01-02t03:04:05Z", "t03:04:05Z", "T");
            cannot(layout, "2026-01-02T03:04", "", ":");
            cannot(layout, "2026-01-02T03:04:5Z", "5Z", "05");
            cannot(layout, "2026-01-02T03:04:05.000000", "", "Z07:00");
            cannot(layout, "2026-01-02T03:04:05.000000z", "z", "Z07:00");
            cannot(layout, "2026-01-02T03:04:05.000000+0100", "+0100", "Z07:00");
            cannot(layout, "2026-01-02T03:04:05.000000 01:00", " 01:00", "Z07:00");
        }
        cannot(Layout::Seconds, "2026-01-02T03:04:05.Z", ".Z", "Z07:00");
        cannot(Layout::Micros, "2026-01-02T03:04:05Z", "Z", ".000000");
        cannot(Layout::Micros, "2026-01-02T03:04:05.678Z", ".678Z", ".000000");
        cannot(Layout::Micros, "2026-01-02T03:04:05+01:00:00", "+01:00:00", ".000000");
        cannot(Layout::Micros, "2026-01-02T03:04:05.6789012Z", "2Z", "Z07:00");
    }

    #[test]
    fn a_part_out_of_range_is_named() {
        for (text, what) in [
            ("2026-13-02T03:04:05.000000Z", "month out of range"),
            ("2026-00-02T03:04:05.000000Z", "month out of range"),
            ("2026-02-29T03:04:05.000000Z", "day out of range"),
            ("2026-02-00T03:04:05.000000Z", "day out of range"),
            ("2026-01-02T24:04:05.000000Z", "hour out of range"),
            ("2026-01-02T03:60:05.000000Z", "minute out of range"),
            ("2026-01-02T03:04:60.000000Z", "second out of range"),
            ("2026-01-02T03:04:05.000000+25:00", "time zone offset hour out of range"),
            ("2026-01-02T03:04:05.000000+01:61", "time zone offset minute out of range"),
            ("2026-01-02T03:04:05.000000Zulu", "extra text: \"ulu\""),
            ("9999-12-31T23:59:59.000000-24:00", "year out of range"),
        ] {
            for layout in BOTH {
                assert_eq!(time(text, layout), Err(format!("parsing time \"{text}\": {what}")));
            }
        }
    }

    #[test]
    fn bytes_outside_of_printable_ascii_are_escaped_one_by_one() {
        let error = time("\u{e9}\n\"\\", Layout::Seconds).unwrap_err();
        assert!(error.starts_with(r#"parsing time "\xc3\xa9\x0a\"\\" as"#), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2}[.,]?[0-9]{0,12}[-+Zé][0-9:]{0,6}|\\PC{0,30}") {
            for layout in BOTH {
                let _ = time(&text, layout);
            }
        }

        #[test]
        fn a_time_that_was_written_is_read(second in 0i64..253_000_000_000, micros in 0i32..1_000_000) {
            let moment = Timestamp::new(second, micros * 1000).unwrap();
            let text = moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            for layout in BOTH {
                proptest::prop_assert_eq!(time(&text, layout), Ok(moment));
            }
        }
    }
}
