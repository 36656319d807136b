//! When this program, which never pauses by itself, was stopped: by the kernel, or with the whole virtual machine.
//!
//! What the server did in such a time cannot be known: a request was sent late, or its answer lay there unread. So a second
//! percentile leaves out what overlaps a stop or the backlog behind it, until every request sent so far is answered. Stops
//! are told by this program's clock alone, never by how long an answer took; a server that is slow by itself has no stop to
//! hide behind. One that is stopped while this program goes on is counted as slow, since the client cannot tell.

use tokio::time::{Duration, Instant};

/// Between two looks lies the work of eight connections, a fraction of this.
const STOPPED: Duration = Duration::from_millis(1);

/// A request that was answered.
#[derive(Debug)]
pub(crate) struct Create {
    pub(crate) due: Instant,
    pub(crate) done: Instant,
}

impl Create {
    pub(crate) fn took(&self) -> Duration {
        self.done - self.due
    }
}

/// Stops, in the order of time.
#[derive(Debug)]
pub(crate) struct Stops {
    last: Instant,
    stops: Vec<Stop>,
}

#[derive(Debug)]
struct Stop {
    from: Instant,
    length: Duration,
    /// When the backlog was gone; not known before.
    until: Option<Instant>,
}

impl Stops {
    /// None yet, from now on.
    pub(crate) fn from(now: Instant) -> Self {
        Self { last: now, stops: Vec::new() }
    }

    /// To be called in each turn of a loop that never waits: two calls far apart are a stop.
    pub(crate) fn look(&mut self, now: Instant, is_all_answered: bool) {
        let length = now - self.last;
        if length > STOPPED {
            self.stops.push(Stop { from: self.last, length, until: None });
        } else if is_all_answered {
            // Not in the turn that notices a stop: what became due meanwhile is not even sent.
            for stop in self.stops.iter_mut().rev().take_while(|stop| stop.until.is_none()) {
                stop.until = Some(now);
            }
        }
        self.last = now;
    }

    pub(crate) fn count(&self) -> usize {
        self.stops.len()
    }

    /// In seconds.
    pub(crate) fn longest(&self) -> f64 {
        self.stops.iter().map(|stop| stop.length.as_secs_f64()).fold(0.0, f64::max)
    }

    /// In seconds.
    pub(crate) fn total(&self) -> f64 {
        self.stops.iter().map(|stop| stop.length.as_secs_f64()).sum()
    }

    /// How long those took that overlap neither a stop nor the backlog behind it.
    pub(crate) fn without(&self, creates: &[Create]) -> Vec<Duration> {
        let is_apart = |create: &&Create| {
            let overlaps =
                |stop: &Stop| create.done >= stop.from && stop.until.is_none_or(|until| create.due <= until);
            !self.stops.iter().any(overlaps)
        };
        creates.iter().filter(is_apart).map(Create::took).collect()
    }
}
