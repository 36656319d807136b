//! A queue of keys: it contains each key at most once, a key has one run at a time, and failed keys are retried with back-off.
//!
//! The queue keeps the contract of client-go's `workqueue`, on which Kubernetes controllers rely. It does not depend on Kubernetes.
//!
//! ```
//! use kube_workqueue::Queue;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = Queue::default();
//! queue.add("default/web");
//! queue.add("default/web"); // already queued: still one run
//! queue.add("default/db");
//!
//! let mut attempts = Vec::new();
//! while let Some(item) = queue.get().await {
//!     attempts.push(*item);
//!     if *item == "default/db" && queue.num_requeues(&item) < 2 {
//!         queue.add_rate_limited(*item); // failed: retried in 5 ms, then in 10 ms
//!     } else {
//!         queue.forget(&item);
//!     }
//!     if attempts.len() == 4 {
//!         queue.shut_down();
//!     }
//! } // dropping the item ends its processing
//! assert_eq!(attempts, ["default/web", "default/db", "default/db", "default/db"]);
//! # }
//! ```
//!
//! # Mental model
//!
//! A key is in one state at a time. *Ready* keys are queued in the order in which they became ready. *Waiting* keys become
//! ready at a set time. A key handed out by [`Queue::get`] is *being processed* until its [`Item`] is dropped. Adding a key
//! requests a run that begins after now:
//!
//! | State of the key | [`add`](Queue::add) | [`add_after`](Queue::add_after), [`add_rate_limited`](Queue::add_rate_limited) |
//! |---|---|---|
//! | unknown | becomes ready | waits |
//! | ready | keeps its place | stays ready |
//! | waiting | becomes ready | waits until the earlier of the two times |
//! | being processed | becomes ready when the run ends, for one more run | waits when the run ends, or becomes ready if its time has come |
//!
//! Many tasks may call `get` on clones of one handle; each key goes to one of them.
//!
//! The order of ready keys depends first on their [`Priority`], then on [`Ageing`], which bounds how long a lower priority is
//! passed over, then on [flows](Options::fair_by), which take turns, and last on the time at which they became ready. A plain
//! add is an *event*: it is never rate limited. Its effect on a key that waits because it failed is set by [`BackOffEvents`].
//! [`Queue::when`] and [`Queue::snapshot`] report until when and why keys wait.
//!
//! # Recovery
//!
//! All retries share a budget, the [`Bucket`] of the default limiter, which delays keys beyond their own back-off. When
//! the service that made them fail is back, each success of a key that had failed releases keys that only the budget delays. The
//! first success releases one of them, and each later success two, in order and up to 100 at once. A failure ends the recovery until
//! the next success; until then the keys that still wait follow at the rate of the budget. So the rate of the budget applies only
//! while attempts fail, and after an outage ten thousand keys are processed as fast as they succeed.
//!
//! A *success* is a [`forget`](Queue::forget) of a key that is being processed and had failed; a *failure* is a
//! rate-limited add of a key that is not ready. [`Queue::throttled`] reports that the service refuses load although no key
//! failed. A key's own back-off is never shortened.
//!
//! # Modules, in reading order
//!
//! - `core`: the state machine. Time is an argument, nothing waits.
//! - [`Queue`], [`Item`], [`Options`]: the public interface.
//! - `shared`: the lock around the core and the waiting tasks; `waiters` decides which task to wake, `sync` contains all
//!   locks, wakers and timers.
//! - [`RateLimiter`] and its implementations (`rate_limiter`): the delay after a failure.
//! - [`Metrics`], [`Gauges`], [`KeySnapshot`]: observation of a queue.
//!
//! # Cancellation
//!
//! Dropping the future of `get` loses no key, at any point. Dropping an [`Item`], also by a panic or with the future
//! that holds it, ends the processing: the key can be handed out again. Dropping the future of
//! [`shut_down_with_drain`](Queue::shut_down_with_drain) ends the wait, not the shutdown.
//!
//! # Defaults
//!
//! | Setting | Default |
//! |---|---|
//! | delay after the n-th failure of a key in a row | 5 ms × 2ⁿ⁻¹, at most 1000 s |
//! | retries of all keys together | 100 at once, then 10 a second |
//! | events | at once, with [`Priority::Normal`], not debounced |
//! | events in back-off | the first at once, later ones 30 s after the last run: [`BackOffEvents::Once`] |
//! | ageing | after 1 s, one key in 4 is of a lower priority |
//! | flows | one |
//! | keys ahead of the bucket in a recovery | 100 at once |
//!
//! # Cost
//!
//! An operation takes the queue's lock once, and hashes its key before that. The clock is read only where it is needed: for
//! delays and failures, while keys wait, while priorities compete, and for metrics. A ready key takes about 100 bytes and a
//! waiting one about 125, plus the strings of the key itself; a key is lent to its worker, not cloned.
//! `examples/speed` prints measurements.
//!
//! # Limitations
//!
//! - The queue is not persistent: a restarted controller lists its objects again.
//! - The queue does not store results of runs.
//! - The queue has no task of its own: nothing happens between calls, and a queue without callers costs nothing.
//! - The only clock is tokio's, so that tests can pause it.

mod core;
mod item;
mod map;
mod metrics;
mod options;
mod priority;
mod queue;
mod rate_limiter;
mod shared;
mod snapshot;
mod sync;
mod waiters;

#[cfg(workqueue_loom)]
#[doc(hidden)]
pub use crate::sync::model;

pub use crate::core::{Flow, Reason};
pub use item::Item;
pub use metrics::{Gauges, Metrics};
pub use options::{AddOptions, BackOffEvents, Options};
pub use priority::{Ageing, Priority};
pub use queue::Queue;
pub use rate_limiter::{
    Bucket, BucketError, Delay, ExponentialError, ExponentialLimits, ItemExponentialFailure, ItemFastSlow,
    MaxOf, RateLimiter, WithFullJitter, WithMaxWait, default_controller_rate_limiter,
    default_item_based_rate_limiter,
};
pub use snapshot::{KeySnapshot, KeyState, Waiting};
