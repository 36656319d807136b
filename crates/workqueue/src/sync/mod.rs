//! All locks, wakers and timers of the shell.
//!
//! Nothing else in this crate synchronises or sleeps, so a model checker has one module to replace: `tests/loom.rs` runs the
//! shell under all interleavings of its threads.

#[cfg(workqueue_loom)]
pub mod model;
#[cfg(not(workqueue_loom))]
mod real;

#[cfg(workqueue_loom)]
pub(crate) use model::{Alarm, Mutex, QueueLock, now};
#[cfg(not(workqueue_loom))]
pub(crate) use real::{Alarm, Mutex, QueueLock, now};
