//! Clocks of the kernel, which all processes of a machine share.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU seconds, user and system, that this process has used so far.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
}

/// Nanoseconds of the monotonic clock. Values of different processes can be compared.
#[must_use]
pub fn monotonic_nanoseconds() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}
