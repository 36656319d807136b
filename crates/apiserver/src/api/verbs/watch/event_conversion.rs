//! Conversion of the objects of a watch by a webhook, before they are encoded.
//!
//! If the next object or event is not converted yet, the watch converts a batch that begins with it, and continues when the call has ended.
//! The batch is kept until the next one begins. The call runs in a separate task, because other requests may wait for its result while the
//! client of this watch does not read. Dropping the watch ends the call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use kube_apimachinery::status::ApiError;
use tokio::task::JoinSet;

use super::Watch;
use crate::kind::registry::ServedKind;
use crate::store::{Key, StoreEvent, Stored};

/// Maximum number of initial objects of a batch.
const OBJECTS: usize = 500;

/// A converted batch, and the call for the next one.
#[derive(Default)]
pub(super) struct Conversion {
    /// Converted objects by the revisions of the stored ones.
    converted: BTreeMap<u64, Arc<Stored>>,
    /// The current call; at most one task.
    call: JoinSet<Result<Vec<Arc<Stored>>, ApiError>>,
}

impl Conversion {
    /// Whether the object can be encoded now.
    fn has(&self, served: &ServedKind, stored: &Stored) -> bool {
        self.converted.contains_key(&stored.revision) || !served.awaits_conversion(stored)
    }

    /// Returns the object in the version of the watch, or in its stored version if it has not been converted.
    fn form(&self, stored: &Arc<Stored>) -> Arc<Stored> {
        Arc::clone(self.converted.get(&stored.revision).unwrap_or(stored))
    }
}

impl Watch {
    /// Converts the next objects, if they are not converted yet. A failure ends the watch with an error event.
    pub(super) fn poll_conversion(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.conversion.is_none() || self.ended || self.pending.is_some() {
            return Poll::Ready(());
        }
        let is_idle = self.conversion.as_ref().is_some_and(|conversion| conversion.call.is_empty());
        let next = if is_idle { self.unconverted() } else { Vec::new() };
        let Some(conversion) = &mut self.conversion else { return Poll::Ready(()) };
        if !next.is_empty() {
            let (api, cluster) = (Arc::clone(&self.call.context), Arc::clone(&self.cluster));
            let served = Arc::clone(&self.call.served);
            conversion.converted.clear();
            conversion.call.spawn(async move { api.converter.read(&cluster, &served, &next).await });
        }
        // Without a task, the set returns `None`.
        match ready!(conversion.call.poll_join_next(context)) {
            Some(Ok(Ok(objects))) => {
                conversion.converted.extend(objects.into_iter().map(|object| (object.revision, object)));
            }
            Some(Ok(Err(error))) => self.fail(&error),
            Some(Err(error)) => {
                self.fail(&ApiError::internal(format!("the conversion ended early: {error}")));
            }
            None => {}
        }
        Poll::Ready(())
    }

    /// Ends the call, so that another request that needs the same objects does not wait for it.
    pub(super) fn end_conversion(&mut self) {
        self.conversion = None;
    }

    /// Whether all states of an event that the watch reads are converted.
    pub(super) fn can_read(&self, event: &StoreEvent) -> bool {
        let Some(conversion) = &self.conversion else { return true };
        self.needed(event).all(|stored| conversion.has(&self.call.served, stored))
    }

    /// Whether an initial object is converted, or need not be.
    pub(super) fn can_read_object(&self, key: &Key, stored: &Stored) -> bool {
        let Some(conversion) = &self.conversion else { return true };
        !self.selection.matches_key(key) || conversion.has(&self.call.served, stored)
    }

    /// Returns an object in the version of the watch.
    pub(super) fn form(&self, stored: &Arc<Stored>) -> Arc<Stored> {
        self.conversion.as_ref().map_or_else(|| Arc::clone(stored), |conversion| conversion.form(stored))
    }

    /// Returns the objects to convert next; empty if the next one to encode is converted, or if there is none.
    fn unconverted(&self) -> Vec<Arc<Stored>> {
        let Some(conversion) = &self.conversion else { return Vec::new() };
        let served = &self.call.served;
        let mut wanted: Vec<Arc<Stored>> = Vec::new();
        if let Some(initial) = &self.initial {
            let rest = initial.snapshot.range(&self.call.path.namespace, initial.next.as_ref());
            let mut rest = rest.filter(|(key, _)| self.selection.matches_key(key)).peekable();
            if rest.peek().is_some_and(|(_, stored)| !conversion.has(served, stored)) {
                let batch = rest.take(OBJECTS).filter(|(_, stored)| served.awaits_conversion(stored));
                wanted.extend(batch.map(|(_, stored)| Arc::clone(stored)));
            }
            return wanted;
        }
        if !self.changes.has_news() {
            return wanted;
        }
        // If the history has expired, the watch ends when it reads the events again.
        let events = self.read().map(|(events, _)| events).unwrap_or_default();
        let mut events = events.iter().skip_while(|event| self.needed(event).next().is_none()).peekable();
        if events.peek().is_some_and(|event| !self.can_read(event)) {
            let objects = events.flat_map(|event| self.needed(event));
            let mut objects: Vec<&Arc<Stored>> = objects.collect();
            // The state after an event is also the state before the object's next event, so it may occur twice.
            objects.sort_by_key(|stored| stored.revision);
            objects.dedup_by_key(|stored| stored.revision);
            wanted.extend(objects.into_iter().cloned());
        }
        wanted
    }

    /// Returns the states of an event that are not converted and that the watch reads: the state to be sent, and the state before it if
    /// selectors depend on that.
    fn needed<'a>(&'a self, event: &'a StoreEvent) -> impl Iterator<Item = &'a Arc<Stored>> {
        let is_watched = self.is_in_namespace(event) && self.selection.matches_key(&event.key);
        let before = event.before.as_ref().filter(|_| !self.everything || event.after.is_none());
        let states = before.into_iter().chain(event.after.as_ref());
        states.filter(move |stored| is_watched && self.call.served.awaits_conversion(stored))
    }
}
