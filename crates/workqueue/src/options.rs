//! How a queue is to behave, and how an added key is to run.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::rate_limiter::{RateLimiter, default_controller_rate_limiter};
use crate::{Ageing, Flow, Metrics, Priority};

/// How a [`Queue`](crate::Queue) is to behave; the methods say what can be chosen and what is the default.
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

pub(crate) type FlowOf<K> = Box<dyn Fn(&K) -> Flow + Send>;

#[derive(Clone, Copy)]
pub(crate) struct Debounce {
    pub(crate) quiet: Duration,
    pub(crate) max: Duration,
}

/// What an event, a plain [`add`](crate::Queue::add), does to a key that waits because it failed.
///
/// In Go it makes the key run at once, always; and if that run fails, the next delay is twice as long although the time
/// of the last one had not come. A controller whose failing runs cause events (it writes a status, it deletes and
/// recreates a child) thereby spins, and a key that is touched often by others reaches the longest delay within seconds
/// (kubernetes/kubernetes#132805). The default keeps the first, which is what makes a repaired object heal at
/// once, and not the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackOffEvents {
    /// The first event in a back-off makes the key ready at once. If that run fails, nothing is counted and the key waits
    /// until the time that had been set. Later events in the same back-off make it ready at that time, or `then_every` after
    /// its last run ended if that is earlier. An event that arrives during a run which fails counts as the first.
    ///
    /// [Urgent](AddOptions::urgent) events are not held back: each makes the key ready at once.
    Once {
        /// The shortest time from the end of one such run to the next. Default: 30 s.
        then_every: Duration,
    },
    /// As Go: every event makes the key ready at once, and every failure counts.
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
    /// How long a key that failed waits. Default: [`default_controller_rate_limiter`].
    #[must_use]
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<K> + 'static) -> Self {
        self.rate_limiter = Box::new(rate_limiter);
        self
    }

    /// What events do to a key that waits because it failed. Default: [`BackOffEvents::Once`] with 30 s.
    #[must_use]
    pub fn back_off_events(mut self, policy: BackOffEvents) -> Self {
        self.back_off_events = policy;
        self
    }

    /// How long lower classes may be passed over. Default: see [`Ageing`].
    #[must_use]
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }

    /// Lets keys belong to flows that take turns: within a class, every flow that has ready keys gets one of them handed
    /// out before any gets a second. So none of `n` active flows waits longer than `⌈n / workers⌉` times the longest
    /// run, however many keys the others have. Default: all keys are of one flow, first come first served.
    ///
    /// The function is called under the queue's lock when a key enters the queue.
    #[must_use]
    pub fn fair_by(mut self, flow_of: impl Fn(&K) -> Flow + Send + 'static) -> Self {
        self.flow_of = Some(Box::new(flow_of));
        self
    }

    /// Lets a key wait until no event arrived for `quiet`, but not longer than `max` after the first one. Default: an event
    /// makes a key ready at once.
    ///
    /// Delays asked for explicitly are kept to. Events that arrive while the key is being processed count as one that
    /// arrives when it is done.
    #[must_use]
    pub fn debounce(mut self, quiet: Duration, max: Duration) -> Self {
        self.debounce = Some(Debounce { quiet, max });
        self
    }

    /// Who is told what happens. Default: nobody, and then no clock is read for it.
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

/// How soon and in which class an added key is to run: see [`Queue::add_with`](crate::Queue::add_with).
///
/// The default is an event: at once, in the class [`Priority::Normal`].
#[doc(alias = "AddOpts")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AddOptions {
    /// Not before so long from now. Together with `rate_limited`, the earlier of the two times is taken, as in Go.
    pub after: Option<Duration>,
    /// The key failed: count it, and let the rate limiter set the delay.
    pub rate_limited: bool,
    /// The class; the higher of this and the one the key already has is taken. `None` stands for
    /// [`Priority::Normal`] in an event, and for the class of the run that ends or of the run already asked for otherwise.
    pub priority: Option<Priority>,
    /// The event may have removed the cause of the failures, so the key does not wait for the end of its back-off: see
    /// [`AddOptions::urgent`]. Without effect together with `after` or `rate_limited`.
    pub urgent: bool,
}

impl AddOptions {
    /// Not before `delay` from now.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// The key failed: count it, and let the rate limiter set the delay.
    #[must_use]
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// In this class, or the one the key already has if that is higher.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The event may have removed the cause of the failures: somebody corrected what the key stands for. Under
    /// [`BackOffEvents::Once`] every urgent event makes a key in back-off ready at once, and not only the first event does.
    ///
    /// A failure of such a run is not counted, and the key waits until the time that had been set. To bound a worker that
    /// fails and causes an urgent event each time, ten runs of one back-off begin at once, and later ones 1 s after the
    /// last run ended.
    #[must_use]
    pub fn urgent(mut self) -> Self {
        self.urgent = true;
        self
    }

    /// Whether it is something that happened, and not a run asked for later.
    pub(crate) fn is_event(&self) -> bool {
        self.after.is_none() && !self.rate_limited
    }
}
