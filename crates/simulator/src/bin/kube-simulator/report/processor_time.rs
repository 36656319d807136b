//! Processor time, which other programs of the machine do not change as they change real time.

use std::time::Duration;

/// Processor time of this thread.
pub(crate) fn processor_time() -> Duration {
    // The first number is the time on a processor, which other programs do not change.
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    Duration::from_nanos(nanoseconds)
}
