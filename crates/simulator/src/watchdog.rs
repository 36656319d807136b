//! Ends runs that do not come to rest in real time: a task that is always ready, or one that blocks the thread.
//!
//! A thread watches the driver's progress. After [`KICK_AFTER`] it ends the driver's wait, and the run is reported as stuck. If
//! the thread of the run is blocked for good, only the end of the process is left, after [`EXIT_AFTER`]. Time in which the thread
//! waits for a processor does not count, so that a busy machine makes no operator look stuck.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::idle::Idle;

/// Interval of the looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Time without progress after which the driver's wait is ended.
const KICK_AFTER: Duration = Duration::from_secs(10);

/// Time without progress after which the process ends.
const EXIT_AFTER: Duration = Duration::from_secs(60);

thread_local! {
    static WATCHDOG: Watchdog = Watchdog::start();
}

/// Watches the runs of this thread.
struct Watchdog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<WatchdogState>,
    changed: Condvar,
}

#[derive(Default)]
struct WatchdogState {
    /// The run under way.
    idle: Option<Idle>,
    /// Last action of the run, which is formatted only if the run is stuck.
    place: Option<Box<dyn fmt::Display + Send>>,
    /// Time since the last progress in which the thread ran or was blocked, and whether the driver's wait has been ended since then.
    stuck_for: Duration,
    was_kicked: bool,
    /// Whether the thread waits for the user.
    is_paused: bool,
    /// File with the times of the run's thread, and the time for which the thread had waited for a processor at the last look.
    times: Option<PathBuf>,
    waited: Duration,
    is_over: bool,
}

impl WatchdogState {
    fn progresses(&mut self) {
        (self.stuck_for, self.was_kicked) = (Duration::ZERO, false);
    }
}

#[expect(clippy::disallowed_methods, reason = "it looks for runs that are stuck in real time")]
fn real_time() -> std::time::Instant {
    std::time::Instant::now()
}

impl Watchdog {
    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        // Without the thread, a stuck run hangs, which is no reason not to run at all.
        let _ = thread::Builder::new().name("simulation-watchdog".to_owned()).spawn(move || watched.watch());
        Self(shared)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.is_over {
            if state.idle.is_none() || state.is_paused {
                self.changed.wait(&mut state);
                continue;
            }
            let last_look = real_time();
            self.changed.wait_for(&mut state, LOOK_EVERY);
            let waited = state.times.as_deref().and_then(ThreadTimes::read).map(|times| times.waited);
            let waited = waited.unwrap_or_default();
            // Time in which the thread was ready but had no processor is not the operator's fault.
            let waited_since = waited.saturating_sub(state.waited);
            state.waited = waited;
            state.stuck_for += last_look.elapsed().saturating_sub(waited_since);
            if state.stuck_for >= KICK_AFTER
                && !std::mem::replace(&mut state.was_kicked, true)
                && let Some(idle) = &state.idle
            {
                idle.kick();
            }
            if state.stuck_for >= EXIT_AFTER {
                eprintln!(
                    "simulation: the operator blocks its thread for a minute of real time, so the test process ends. \
                     Last action of the run: {}",
                    state.place.as_ref().map(ToString::to_string).unwrap_or_default()
                );
                // A blocked thread cannot be ended from outside. 101 is the exit code of a failed test
                // program.
                std::process::exit(101);
            }
        }
    }
}

/// Times that Linux counts for a thread. Other systems have none.
pub(crate) struct ThreadTimes {
    /// Time on a processor.
    pub(crate) ran: Duration,
    /// Time for which it was ready to run.
    pub(crate) waited: Duration,
}

impl ThreadTimes {
    /// Returns the file with the times of this thread.
    pub(crate) fn of_this_thread() -> Option<PathBuf> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        Some(Path::new("/proc").join(thread).join("schedstat"))
    }

    /// Returns the times of this thread so far.
    pub(crate) fn now() -> Option<Self> {
        Self::read(Path::new("/proc/thread-self/schedstat"))
    }

    pub(crate) fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let mut times = text.split_whitespace().map_while(|number| number.parse().ok());
        let mut next = || times.next().map(Duration::from_nanos);
        Some(Self { ran: next()?, waited: next()? })
    }
}

/// A run that is watched until this is dropped.
pub(crate) struct Watched(Arc<Shared>);

impl Watched {
    pub(crate) fn begin(idle: &Idle) -> Self {
        let shared = WATCHDOG.with(|watchdog| Arc::clone(&watchdog.0));
        {
            let mut state = shared.state.lock();
            state.idle = Some(idle.clone());
            state.progresses();
            // All runs of this watchdog are in one thread, so its file is looked up once.
            if state.times.is_none() {
                state.times = ThreadTimes::of_this_thread();
            }
        }
        shared.changed.notify_all();
        Self(shared)
    }

    /// Reports progress.
    pub(crate) fn beat(&self, place: impl fmt::Display + Send + 'static) {
        let place: Box<dyn fmt::Display + Send> = Box::new(place);
        let mut state = self.0.state.lock();
        state.progresses();
        state.place = Some(place);
    }
}

impl Watched {
    /// Calls a function that may take as long as it likes.
    pub(crate) fn while_paused(&self, wait: impl FnOnce()) {
        self.0.state.lock().is_paused = true;
        wait();
        let mut state = self.0.state.lock();
        state.is_paused = false;
        state.progresses();
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.state.lock().idle = None;
    }
}
