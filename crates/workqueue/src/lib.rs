//! A queue of keys to work on: each key once, one run of it at a time, failures retried with back-off.
//!
//! It keeps the contract of client-go's `workqueue`, under which Kubernetes controllers run, and knows nothing of
//! Kubernetes itself.
//!
//! ```
//! use kube_workqueue::Queue;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = Queue::default();
//! queue.add("default/web");
//! queue.add("default/web"); // it is in line already: still one run
//! queue.add("default/db");
//!
//! let mut attempts = Vec::new();
//! while let Some(item) = queue.get().await {
//!     attempts.push(*item);
//!     if *item == "default/db" && queue.num_requeues(&item) < 2 {
//!         queue.add_rate_limited(*item); // it failed: again in 5 ms, then in 10 ms
//!     } else {
//!         queue.forget(&item);
//!     }
//!     if attempts.len() == 4 {
//!         queue.shut_down();
//!     }
//! } // dropping the item says that its work is done
//! assert_eq!(attempts, ["default/web", "default/db", "default/db", "default/db"]);
//! # }
//! ```
//!
//! # How to think of it
//!
//! A key is in one state at a time. *Ready* keys stand in line in the order in which they became ready. *Waiting* keys
//! have a time from which on they are ready. A key handed out by [`Queue::get`] is *being processed* until its [`Item`]
//! is dropped. Adding says "this key needs a run that begins after now", and that is what it does:
//!
//! | the key is | [`add`](Queue::add) | [`add_after`](Queue::add_after), [`add_rate_limited`](Queue::add_rate_limited) |
//! |---|---|---|
//! | not known | ready | waiting |
//! | ready | stays where it is | stays ready |
//! | waiting | ready | waiting, until the earlier of the two times |
//! | being processed | ready as soon as that is done, once | waiting (or ready, if the time has come) as soon as that is done |
//!
//! Many tasks may call `get` on clones of one handle; whichever comes first has the key.
//!
//! Who is next among ready keys is a matter of their [`Priority`], of [`Ageing`], which bounds how long a lower class is
//! passed over, of [flows](Options::fair_by) that take turns, and last of how long they have been ready. A plain add is an
//! *event*: it is never rate limited, but what it may do to a key that waits because it failed is a policy:
//! [`BackOffEvents`]. [`Queue::when`] and [`Queue::snapshot`] say until when and why keys wait.
//!
//! # Recovery
//!
//! A budget that all retries share, the [`Bucket`] of the default limiter, holds back keys that could be tried again. When
//! the service that made them fail is back, each success of a key that had failed releases keys that only the budget holds
//! back, in order: one, then two for each further success, up to 100 at once. The first failure ends that until the
//! next success, and the keys that still wait follow at the rate of the budget. So the budget's figures hold while attempts
//! fail, and ten thousand keys are done as fast as they succeed.
//!
//! To the queue, a *success* is [`forget`](Queue::forget) of a key that is being processed and had failed, a *failure* every
//! rate-limited add of a key that is not ready, and [`Queue::throttled`] says that the service refuses load although no key
//! failed. A key's own back-off is never cut short.
//!
//! # Modules, in reading order
//!
//! - `core`: the state machine. Time is an argument, nothing waits.
//! - [`Queue`], [`Item`], [`Options`]: what is public of it.
//! - `shared`: the lock around the core and the tasks that wait; `waiters` says whom to wake, `sync` holds what is left of
//!   locks, wakers and timers.
//! - [`RateLimiter`] and its implementations (`rate_limiter`): how long a failure waits.
//! - [`Metrics`], [`Gauges`], [`KeySnapshot`]: what a queue tells about itself.
//!
//! # Cancellation
//!
//! Dropping the future of `get` loses no key, wherever it stood. Dropping an [`Item`], also by a panic or with the future
//! that holds it, is "done": the key can be handed out again. Dropping the future of
//! [`shut_down_with_drain`](Queue::shut_down_with_drain) ends the wait, not the shutdown.
//!
//! # Defaults
//!
//! | what | value |
//! |---|---|
//! | delay of the n-th failure of a key | 5 ms × 2ⁿ, at most 1000 s |
//! | retries of all keys together | 100 at once, then 10 a second |
//! | events | at once, in the class [`Priority::Normal`], not debounced |
//! | events in back-off | the first at once, later ones 30 s after the last run: [`BackOffEvents::Once`] |
//! | ageing | after 1 s, one hand-out in 4 |
//! | flows | one |
//! | keys ahead of the bucket in a recovery | 100 at once |
//!
//! # What it costs
//!
//! An operation takes the queue's lock once and hashes its key before that. The clock is read only where it matters: for
//! delays and failures, while keys wait, while classes compete, and for metrics. A ready key takes some 100 bytes and a
//! waiting one some 125, beyond the strings of the key itself; a key is lent to the one who works on it and not cloned.
//! `examples/speed` prints figures.
//!
//! # What is not here
//!
//! No persistence: a restarted controller lists its objects anew. No results: what a run found out is the caller's. No
//! tasks: nothing happens between calls, and a queue without callers costs nothing. No clock but tokio's, so that
//! tests can pause it.

mod core;
mod item;
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
    Bucket, Delay, ExponentialLimits, InvalidBucket, InvalidExponential, ItemExponentialFailure,
    ItemFastSlow, MaxOf, RateLimiter, WithFullJitter, WithMaxWait, default_controller_rate_limiter,
    default_item_based_rate_limiter,
};
pub use snapshot::{KeySnapshot, KeyState, Waiting};
