//! A log of audit events in memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{AuditEvent, AuditSink};

/// Number of events that a log keeps.
const CAPACITY: usize = 100_000;

/// The requests of a server, in the order of their responses. Returned by [`ApiServer::audit`](crate::ApiServer::audit).
///
/// Clones share one log, which records until the last clone is dropped. The log keeps the last 100,000 events, and counts the events that
/// it dropped. Formatted with a line for each event.
#[derive(Clone, Default)]
pub struct AuditLog(Arc<Events>);

#[derive(Default)]
struct Events(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    events: VecDeque<Arc<AuditEvent>>,
    dropped: u64,
}

impl AuditLog {
    /// Returns the events that the log keeps, the oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Arc<AuditEvent>> {
        self.0.0.lock().events.iter().cloned().collect()
    }

    /// Removes all events and returns them, so that the next call returns only later ones.
    #[must_use]
    pub fn take(&self) -> Vec<Arc<AuditEvent>> {
        std::mem::take(&mut self.0.0.lock().events).into()
    }

    /// Returns the number of events that were dropped because the log was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.0.lock().dropped
    }

    /// Returns the sink that fills the log.
    pub(crate) fn sink(&self) -> Arc<dyn AuditSink> {
        Arc::clone(&self.0) as Arc<dyn AuditSink>
    }
}

impl AuditSink for Events {
    fn record(&self, event: &Arc<AuditEvent>) {
        let mut recorded = self.0.lock();
        if recorded.events.len() >= CAPACITY {
            recorded.events.pop_front();
            recorded.dropped += 1;
        }
        recorded.events.push_back(Arc::clone(event));
    }
}

impl fmt::Display for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = self.0.0.lock();
        f.debug_struct("AuditLog")
            .field("events", &recorded.events.len())
            .field("dropped", &recorded.dropped)
            .finish()
    }
}
