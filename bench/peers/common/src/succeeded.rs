//! Records objects that have been reconciled successfully.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::{Ask, Reply, clock};

/// Names of successfully reconciled objects. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Succeeded(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    names: BTreeSet<String>,
    /// Time of the latest addition, on the monotonic clock.
    at: u64,
}

impl Succeeded {
    /// Adds an object.
    pub fn add(&self, name: &str) {
        let now = clock::monotonic_nanoseconds();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.names.contains(name) {
            state.names.insert(name.to_owned());
            state.at = now;
        }
    }

    /// Waits for `count` objects. Replies with their number and the time of the latest addition.
    ///
    /// # Errors
    ///
    /// The step has no parameter `count`.
    pub async fn wait(&self, ask: &Ask) -> anyhow::Result<Reply> {
        let count = ask.number("count")?;
        loop {
            let (succeeded, at) = {
                let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                (state.names.len(), state.at)
            };
            if succeeded >= count {
                return Ok(Reply::figures([("succeeded", succeeded as u64), ("at", at)]));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
