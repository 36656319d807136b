//! The clocks of the kernel, which are the same for all processes of a machine.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU seconds, of user and system, that this process has used so far.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
}

/// Nanoseconds of the monotonic clock: what one process writes, another one can subtract from.
#[must_use]
pub fn monotonic_nanoseconds() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}
