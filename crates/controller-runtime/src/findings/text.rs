//! Durations, times and numbers in findings.

use std::{fmt, time::Duration};

use k8s_openapi::jiff::{Timestamp, tz::TimeZone};

/// Displays a duration in its two largest units, rounded down: `8 min 31 s`, `3 h 12 min`, `11 min`, `under 1 s`.
pub(super) struct Span(pub(super) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        let (large, small) = match (days, hours, minutes, seconds % 60) {
            (0, 0, 0, 0) => return f.write_str("under 1 s"),
            (0, 0, 0, seconds) => ((seconds, "s"), (0, "")),
            (0, 0, minutes, seconds) => ((minutes, "min"), (seconds, "s")),
            (0, hours, minutes, _) => ((hours, "h"), (minutes, "min")),
            (days, hours, ..) => ((days, "d"), (hours, "h")),
        };
        write!(f, "{} {}", large.0, large.1)?;
        if small.0 > 0 { write!(f, " {} {}", small.0, small.1) } else { Ok(()) }
    }
}

/// Displays the time of day, and the date unless it is that of `now`: `12:14:31 UTC`, `2026-01-31 12:14:31 UTC`.
pub(super) struct TimeOfDay {
    pub(super) at: Timestamp,
    pub(super) now: Timestamp,
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [at, now] = [self.at, self.now].map(|time| time.to_zoned(TimeZone::UTC));
        let form = if at.date() == now.date() { "%H:%M:%S UTC" } else { "%Y-%m-%d %H:%M:%S UTC" };
        write!(f, "{}", at.strftime(form))
    }
}

/// Displays a number with commas between thousands: `9,412`.
pub(super) struct Count(pub(super) u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Displays a number with its noun: `1 run`, `2 runs`.
pub(super) struct Plural(pub(super) u64, pub(super) &'static str);

impl fmt::Display for Plural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        write!(f, "{} {noun}{}", Count(*count), if *count == 1 { "" } else { "s" })
    }
}

/// The first `bytes` bytes of a text from another program, such as an error message, on one line. An ellipsis follows if it is longer.
pub(super) fn beginning(text: &str, bytes: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let mut line = line.join(" ");
    if line.len() > bytes {
        line.truncate(line.floor_char_boundary(bytes));
        line.push('…');
    }
    line
}

/// A sentence without its final full stop, so that another sentence can follow.
pub(super) fn without_stop(text: &str) -> &str {
    text.trim_end().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [
            (0, "under 1 s"),
            (48, "48 s"),
            (511, "8 min 31 s"),
            (660, "11 min"),
            (11_520, "3 h 12 min"),
            (86_400, "1 d"),
            (183_661, "2 d 3 h"),
        ] {
            assert_eq!(Span(Duration::from_secs(seconds)).to_string(), expected);
        }
    }

    #[test]
    fn times_of_other_days_have_a_date() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a timestamp");
        let now = time("2026-01-31T12:14:31Z");
        assert_eq!(TimeOfDay { at: now, now }.to_string(), "12:14:31 UTC");
        assert_eq!(
            TimeOfDay { at: time("2026-02-01T00:00:00Z"), now }.to_string(),
            "2026-02-01 00:00:00 UTC"
        );
    }

    #[test]
    fn numbers_have_commas_and_nouns_agree() {
        assert_eq!(
            [0, 999, 1000, 9_412_345].map(|count| Count(count).to_string()).join(" "),
            "0 999 1,000 9,412,345"
        );
        assert_eq!([1, 2].map(|count| Plural(count, "run").to_string()).join(" "), "1 run 2 runs");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(beginning("a\n  bé", 4), "a b…");
        assert_eq!(beginning("a\n  bé", 5), "a bé");
    }
}
