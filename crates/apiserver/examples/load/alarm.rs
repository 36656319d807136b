//! A timer with the kernel's resolution; timers of the runtime have a resolution of a millisecond.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Wraps a `timerfd`.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(deprecated, reason = "sound for an `OwnedFd`; the replacement is unsafe")]
        let timer = AsyncFd::new(timer)?;
        Ok(Self(timer))
    }

    /// Waits until `due`.
    pub(crate) async fn sleep_until(&self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let once = Itimerspec { it_interval: zero, it_value: left };
        rustix::time::timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            let rung = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?));
            if let Ok(rung) = rung {
                return rung.map(|_times| ());
            }
        }
    }
}
