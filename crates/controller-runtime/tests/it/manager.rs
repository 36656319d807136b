//! Managers: start, run and stop.

mod again;
mod metrics;
mod runnables;
mod start;
mod stop;
