//! Ages in the format of kubectl: `5s`, `3m20s`, `2d3h`.

use jiff::Timestamp;

/// Formats the age of `time`. `<invalid>` if it is two or more seconds in the future.
#[must_use]
pub fn since(time: Timestamp, now: Timestamp) -> String {
    // Go's durations end at 292 years, and so do the ages that it prints.
    let nanos = i64::try_from(now.as_nanosecond() - time.as_nanosecond()).unwrap_or(if now < time {
        i64::MIN
    } else {
        i64::MAX
    });
    human(nanos / 1_000_000_000)
}

/// Formats the age of a time in text; `<unknown>` if it is empty.
#[must_use]
pub fn since_text(time: Option<&str>, now: Timestamp) -> String {
    match time.unwrap_or_default() {
        // Go's `UnmarshalQueryParameter`, which reads the time, takes both for the zero time.
        "" | "null" => "<unknown>".to_owned(),
        text => text.parse().map_or_else(|_| "<invalid>".to_owned(), |time| since(time, now)),
    }
}

/// Formats a duration in seconds.
#[must_use]
pub fn lasting(seconds: i64) -> String {
    human(seconds)
}

/// Formats a duration with two units while the second one matters, then with one.
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        // The clocks of two machines may differ by a second.
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_the_units_that_matter() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, shown) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (47 * HOUR, "47h"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (9 * YEAR + DAY, "9y"),
        ] {
            assert_eq!(human(seconds), shown, "{seconds} seconds");
        }
    }

    #[test]
    fn ages_end_where_durations_of_go_end() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(since_text(Some("1600-01-01T00:00:00Z"), now), "292y");
        assert_eq!(since_text(Some("2999-01-01T00:00:00Z"), now), "<invalid>");
        assert_eq!(since_text(Some("2025-12-31T23:59:55Z"), now), "5s");
        assert_eq!(since_text(Some("not a date"), now), "<invalid>");
        assert_eq!(since_text(None, now), "<unknown>");
    }
}
