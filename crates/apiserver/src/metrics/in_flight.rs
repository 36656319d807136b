//! Requests that are being processed: `apiserver_current_inflight_requests`.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::exposition::MetricsPage;

/// Kinds of requests that have limits of their own in kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Mutating,
    ReadOnly,
}

/// Requests of both kinds.
#[derive(Default)]
pub(super) struct Peaks {
    mutating: Peak,
    read_only: Peak,
}

/// Number of requests, and its maximum in the last second.
#[derive(Default)]
struct Peak(Mutex<PeakWindow>);

#[derive(Default)]
struct PeakWindow {
    current: u32,
    /// Start of the second that is being observed.
    since: Option<Instant>,
    /// Maximum in this second so far.
    maximum: u32,
    /// Maximum in the previous second.
    before: u32,
}

impl PeakWindow {
    /// Begins a new second if the current one is over.
    fn turn(&mut self, now: Instant) {
        let seconds = self.since.map_or(2, |since| now.saturating_duration_since(since).as_secs());
        if seconds > 0 {
            // After a longer pause no request began in the previous second, so its maximum is the current number.
            self.before = if seconds == 1 { self.maximum } else { self.current };
            self.maximum = self.current;
            self.since = Some(now);
        }
    }
}

/// Counts a request until it is dropped.
pub(crate) struct InFlight<'a>(&'a Peak);

impl Peaks {
    pub(super) fn begin(&self, kind: RequestKind, now: Instant) -> InFlight<'_> {
        let peak = self.of(kind);
        let mut window = peak.0.lock();
        window.turn(now);
        window.current += 1;
        window.maximum = window.maximum.max(window.current);
        InFlight(peak)
    }

    fn of(&self, kind: RequestKind) -> &Peak {
        match kind {
            RequestKind::Mutating => &self.mutating,
            RequestKind::ReadOnly => &self.read_only,
        }
    }

    pub(super) fn write(&self, page: &mut MetricsPage) {
        const NAME: &str = "apiserver_current_inflight_requests";
        let help = "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last second.";
        page.family(NAME, "gauge", help);
        for (kind, label) in [(RequestKind::Mutating, "mutating"), (RequestKind::ReadOnly, "readOnly")] {
            let mut window = self.of(kind).0.lock();
            window.turn(Instant::now());
            let maximum = window.maximum.max(window.before);
            page.sample(NAME, &[("request_kind", label)], f64::from(maximum));
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.0.lock().current -= 1;
    }
}
