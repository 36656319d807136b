//! Options of a queue, and of an added key.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::rate_limiter::{RateLimiter, default_controller_rate_limiter};
use crate::{Ageing, Flow, Metrics, Priority};

/// Options of a [`Queue`](crate::Queue).
///
/// ```
/// # use std::time::Duration;
/// # use kube_workqueue::{Flow, Options, Queue, default_item_based_rate_limiter};
/// let options = Options::default()
///     .rate_limiter(default_item_based_rate_limiter())
///     .fair_by(|key: &(String, String)| Flow::from(key.0.as_str()))
///     .debounce(Duration::from_millis(100), Duration::from_secs(1));
/// let queue = Queue::new(options);
/// # drop(queue);
/// ```
pub struct Options<K> {
    pub(crate) rate_limiter: Box<dyn RateLimiter<K>>,
    pub(crate) back_off_events: BackOffEvents,
    pub(crate) ageing: Ageing,
    pub(crate) flow_of: Option<FlowOf<K>>,
    pub(crate) debounce: Option<Debounce>,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
}

/// Shared by the queue's handle, which calls it, and by the core.
pub(crate) type FlowOf<K> = Arc<dyn Fn(&K) -> Flow + Send + Sync>;

#[derive(Clone, Copy)]
pub(crate) struct Debounce {
    pub(crate) quiet: Duration,
    pub(crate) max: Duration,
}

/// Effect of an event, a plain [`add`](crate::Queue::add), on a key that waits because it failed.
///
/// In Go an event always makes the key run at once. If that run fails, the next delay is doubled although the last delay had
/// not passed. Therefore a controller whose failing runs cause events (it writes a status, it deletes and recreates a child)
/// spins, and a key that changes often reaches the longest delay within seconds (kubernetes/kubernetes#132805). With the
/// default, an event still makes the key run at once, so that a repaired object recovers, but does not double the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackOffEvents {
    /// The first event during a back-off makes the key ready at once. If that run fails, the failure is not counted and the key
    /// waits until the time set before. Later events in the same back-off make it ready at that time, or `then_every` after its
    /// last run ended if that is earlier. An event that arrives during a failing run counts as the first.
    ///
    /// [Urgent](AddOptions::urgent) events are not delayed: each makes the key ready at once.
    Once {
        /// The shortest time from the end of one such run to the next. Default: 30 s.
        then_every: Duration,
    },
    /// As in Go: every event makes the key ready at once, and every failure counts.
    Always,
}

impl Default for BackOffEvents {
    fn default() -> Self {
        Self::Once { then_every: Duration::from_secs(30) }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Options<K> {
    fn default() -> Self {
        Self {
            rate_limiter: Box::new(default_controller_rate_limiter()),
            back_off_events: BackOffEvents::default(),
            ageing: Ageing::default(),
            flow_of: None,
            debounce: None,
            metrics: None,
        }
    }
}

impl<K> Options<K> {
    /// Sets the rate limiter, which determines the delay after a failure. Default: [`default_controller_rate_limiter`].
    #[must_use]
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<K> + 'static) -> Self {
        self.rate_limiter = Box::new(rate_limiter);
        self
    }

    /// Sets the effect of events on a key that waits because it failed. Default: [`BackOffEvents::Once`] with 30 s.
    #[must_use]
    pub fn back_off_events(mut self, policy: BackOffEvents) -> Self {
        self.back_off_events = policy;
        self
    }

    /// Sets how long lower priorities may be passed over. Default: see [`Ageing`].
    #[must_use]
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }

    /// Assigns keys to flows that take turns: within a priority, one key of every flow with ready keys is handed out before a
    /// second key of any flow. So none of `n` active flows waits longer than `⌈n / workers⌉` times the longest
    /// run, however many keys the others have. Default: all keys are of one flow, in the order in which they became ready.
    ///
    /// The function is called when a key enters the queue, without a lock, so it may call the queue. A key that several tasks add at once
    /// may be passed to it several times, and must have the same flow each time.
    #[must_use]
    pub fn fair_by(mut self, flow_of: impl Fn(&K) -> Flow + Send + Sync + 'static) -> Self {
        self.flow_of = Some(Arc::new(flow_of));
        self
    }

    /// Debounces events: a key becomes ready when no event of it has arrived for `quiet`, at the latest `max` after the first
    /// one. Default: an event makes a key ready at once.
    ///
    /// Explicit delays are not affected. Events that arrive while the key is being processed count as one event that
    /// arrives when the processing ends.
    #[must_use]
    pub fn debounce(mut self, quiet: Duration, max: Duration) -> Self {
        self.debounce = Some(Debounce { quiet, max });
        self
    }

    /// Sets the receiver of measurements. Default: none; the queue then does not read the clock for them.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }
}

impl<K> fmt::Debug for Options<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("back_off_events", &self.back_off_events)
            .field("ageing", &self.ageing)
            .finish_non_exhaustive()
    }
}

/// Delay, priority and urgency of an added key: see [`Queue::add_with`](crate::Queue::add_with).
///
/// The default is an event: at once, with [`Priority::Normal`].
#[doc(alias = "AddOpts")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AddOptions {
    /// Delay from now. Together with `rate_limited`, the earlier of the two times applies, as in Go.
    pub after: Option<Duration>,
    /// Whether the key failed: the failure is counted, and the rate limiter sets the delay.
    pub rate_limited: bool,
    /// The priority; the higher of this and the key's current one applies. `None` stands for
    /// [`Priority::Normal`] in an event; otherwise for the priority of the run that ends, or of a run requested before.
    pub priority: Option<Priority>,
    /// Whether the event may have removed the cause of the failures, so that the key does not wait for the end of its back-off:
    /// see [`AddOptions::urgent`]. No effect together with `after` or `rate_limited`.
    pub urgent: bool,
}

impl AddOptions {
    /// Adds the key `delay` from now at the earliest.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Counts a failure of the key, and lets the rate limiter set the delay.
    #[must_use]
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// Sets the priority; a higher current priority of the key stays.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Marks an event that may have removed the cause of the failures, such as a correction of the object that the key stands
    /// for. Under [`BackOffEvents::Once`] every urgent event makes a key in back-off ready at once, not only the first.
    ///
    /// A failure of such a run is not counted, and the key waits until the time set before. To bound a worker that
    /// fails and causes an urgent event each time, ten runs of one back-off begin at once, and later ones 1 s after the
    /// last run ended.
    #[must_use]
    pub fn urgent(mut self) -> Self {
        self.urgent = true;
        self
    }

    /// Returns whether this is an event, rather than a request for a later run.
    pub(crate) fn is_event(&self) -> bool {
        self.after.is_none() && !self.rate_limited
    }
}
