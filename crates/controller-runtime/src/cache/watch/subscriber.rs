//! Interfaces of an informer for the lists and watches that it shares with other informers.

use std::sync::Arc;

use tokio::{sync::futures::OwnedNotified, time::Instant};

use crate::{
    cache::{
        objects::{
            dictionary::{Dictionary, Samples},
            incoming_object::IncomingObject,
        },
        query::WatchScope,
    },
    client::{Extent, WrittenObject},
    object::meta::ResourceVersion,
};

/// An informer, as a [`SharedWatch`](crate::cache::watch::shared_watch::SharedWatch) sees it.
///
/// At most one list and watch of a scope calls these methods at a time.
pub(crate) trait WatchSubscriber: ReflectorStore + WatchObserver + CompressionWork {
    /// Returns how much of each object the subscriber reads.
    fn extent(&self) -> Extent;

    /// If the mailbox of an event subscriber is full, returns a future that ends when it has room for the next event.
    fn lacks_room(&self) -> Option<OwnedNotified>;

    /// Delivers a piece of a resync if one is due. Returns when to call it again.
    fn resync(&self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant>;
}

/// Receives objects that a watch reports as changed or deleted, as the API server sends them, before caches drop their managed fields.
///
/// Its methods are called for every event, so they must be short.
pub(crate) trait ChangeObserver: Send + Sync {
    /// Returns whether the object with this UID is of interest.
    fn is_interested_in(&self, uid: &str) -> bool;

    /// Receives the new state of an object of interest.
    fn changed(&self, object: &WrittenObject<'_>);

    /// Receives the UID of a deleted object.
    fn deleted(&self, uid: &str);
}

/// Store that a reflector keeps up to date.
pub(crate) trait ReflectorStore: Send + Sync {
    /// Starts an initial list of `scope`. Its objects follow one by one.
    fn begin_list(&self, scope: &WatchScope);

    /// Adds an object to the initial list.
    fn add_listed(&self, scope: &WatchScope, object: &IncomingObject<'_>);

    /// Removes an object from the initial list: it was deleted while the list arrived.
    fn remove_listed(&self, scope: &WatchScope, object: &IncomingObject<'_>);

    /// Ends the initial list, which has this version. Adds a piece of it to the store, and returns whether that was the
    /// last one; if not, it must be called again.
    fn finish_list(&self, scope: &WatchScope, version: &ResourceVersion) -> bool;

    /// Adds or updates an object that the watch delivered. Returns its version.
    ///
    /// # Errors
    ///
    /// Only a new list can show whether the object exists.
    fn upsert(
        &self,
        scope: &WatchScope,
        object: &IncomingObject<'_>,
    ) -> Result<Option<ResourceVersion>, OutOfOrder>;

    /// Removes an object that was deleted or is not selected any more. Returns its version.
    fn remove(&self, scope: &WatchScope, object: &IncomingObject<'_>) -> Option<ResourceVersion>;

    /// Records that the watch has delivered all changes up to this version.
    fn advance(&self, scope: &WatchScope, version: &ResourceVersion);

    /// Returns the scopes of which the store holds objects or other state.
    fn stored_scopes(&self) -> Vec<WatchScope>;

    /// Removes a piece of a scope that is not watched any more, and returns whether that was the last one; if not, it
    /// must be called again.
    fn withdraw(&self, scope: &WatchScope) -> bool;

    /// Sets the current scopes. The informer is synced when the initial lists of all of them are complete.
    fn set_scopes(&self, scopes: &[WatchScope]);

    /// Returns the time of the oldest own write that the watch has not delivered yet.
    fn waiting_since(&self, scope: &WatchScope) -> Option<Instant>;
}

/// Receiver of the state changes of lists and watches, for status and statistics.
pub(crate) trait WatchObserver: Send + Sync {
    /// Records that lists and watches of all scopes start again, because the manager started.
    fn restarted(&self);

    /// Counts a watch that was opened, with or without initial events.
    fn watch_opened(&self);

    /// Records that the watch of the scope works.
    fn watch_works(&self, scope: &WatchScope);

    /// Records a failure of the list or watch of the scope.
    fn watch_failed(&self, scope: &WatchScope, failure: &WatchFailure);

    /// Counts a probe of a silent watch.
    fn probe_sent(&self);

    /// Counts a watch that was closed because it did not deliver events any more.
    fn watch_died(&self);

    /// Records that the cluster was removed from the manager, and that all scopes have been withdrawn.
    fn closed(&self);
}

/// Compression of stored texts, which the reflector runs while no events are pending.
pub(crate) trait CompressionWork: Send + Sync {
    /// Whether there are texts to compress.
    fn has_backlog(&self) -> bool;

    /// Compresses some of these texts.
    fn compress_backlog(&self);

    /// Whether a dictionary is to be trained for the objects that have arrived.
    fn is_training_due(&self) -> bool;

    /// Returns texts to train a dictionary with, if that is due.
    fn samples(&self) -> Option<Samples>;

    /// Takes the dictionary that was trained with the samples; `None` if none could be created.
    fn set_dictionary(&self, dictionary: Option<Arc<Dictionary>>);
}

/// The watch delivered an object that is not in the store, at a version that it had already passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfOrder;

/// Failure of a list or watch, as text for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchFailure {
    pub(crate) message: String,
    /// Rule with the permissions that the operator lacks. Waiting does not help.
    pub(crate) forbidden: Option<String>,
}
