//! Processor time, which other programs of the machine do not change as they change real time.

use std::time::Duration;

/// The first number of this file is the time on a processor, in nanoseconds.
const FILE: &str = "/proc/thread-self/schedstat";

/// Processor time of this thread. Only Linux has the file with it.
pub(crate) fn processor_time() -> Result<Duration, String> {
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| format!("{FILE} does not begin with a number: {text}"))
}
