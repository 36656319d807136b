//! Time that the API server waits for a webhook. Pure.

use std::time::Duration;

/// Timeout of requests without a valid `timeout`, the default of the API server.
const DEFAULT: Duration = Duration::from_secs(10);
/// Longest timeout that the API server allows.
const LONGEST: Duration = Duration::from_secs(30);

/// The timeout in a query such as `timeout=10s`.
pub(super) fn timeout_of(query: &str) -> Duration {
    let value = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "timeout");
    let timeout = value.and_then(|(_, value)| parse(&value));
    timeout.filter(|timeout| !timeout.is_zero()).map_or(DEFAULT, |timeout| timeout.min(LONGEST))
}

/// Parses the text of Go's `time.Duration`, such as `1m30s` or `1.5s`.
fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_of_the_query_is_limited_to_30_s() {
        for (query, millis) in [
            ("timeout=3s", 3000),
            ("a=b&timeout=1m", 30_000),
            ("timeout=500ms", 500),
            ("timeout=1.5s", 1500),
            ("timeout=1s200ms", 1200),
            ("timeout=20us", 0),
            ("", 10_000),
            ("timeout=", 10_000),
            ("timeout=soon", 10_000),
            ("timeout=-1s", 10_000),
            ("timeout=5", 10_000),
            ("timeout=99999999999999999999h", 10_000),
        ] {
            assert_eq!(timeout_of(query).as_millis(), millis, "{query}");
        }
    }
}
