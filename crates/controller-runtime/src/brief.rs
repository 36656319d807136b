//! Durations in log lines and explanations.

use std::{fmt, time::Duration};

/// Displays a duration in whole milliseconds, rounded down: `1ms`, `61.234s`, or `under 1ms`.
pub(crate) struct Brief(pub(crate) Duration);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = Duration::from_millis(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX));
        if millis.is_zero() { f.write_str("under 1ms") } else { write!(f, "{millis:?}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_given_in_milliseconds_at_the_finest() {
        for (nanos, expected) in
            [(0, "under 1ms"), (999_999, "under 1ms"), (1_234_567, "1ms"), (61_234_567_890, "61.234s")]
        {
            assert_eq!(Brief(Duration::from_nanos(nanos)).to_string(), expected);
        }
    }
}
