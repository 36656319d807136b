//! Waiting for a condition of a cached object.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    cache::state::{informer::Informer, read_error::ReadError},
    object::{Object, ObjectKey},
};

/// Error of [`Cached::until`](crate::Cached::until).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// The condition did not hold in time.
    #[error("{object} did not meet the condition within {} s; its last state in the cache: {last}", within.as_secs_f32())]
    TimedOut {
        /// Resource and key of the object.
        object: String,
        /// Duration of the wait.
        within: Duration,
        /// `at version 5`, `absent`, or `not listed yet`.
        last: String,
    },
    /// The object cannot be decoded as its type, the cache does not contain its namespace, or its cluster was removed.
    #[error("the object to wait for cannot be read")]
    Unreadable(#[source] ReadError),
}

/// Waits until the condition holds for an object of a cache; see [`Cached::until`](crate::Cached::until).
pub(in crate::cache) async fn until<K: Object>(
    informer: &Arc<Informer<K>>,
    key: &ObjectKey<K>,
    condition: impl Fn(Option<&K>) -> bool,
    within: Duration,
) -> Result<Option<Arc<K>>, UntilError> {
    let (notify, mut status) = (informer.change_notify(key), informer.status());
    let holds = async {
        loop {
            // Registered before the object is read, so that a change right after the read is not missed.
            let mut changed = pin!(notify.notified());
            changed.as_mut().enable();
            status.mark_unchanged();
            match read(informer, key) {
                Ok(object) if condition(object.as_deref()) => return Ok(object),
                Ok(_) | Err(ReadError::NotSynced { .. }) => {}
                Err(error) => return Err(UntilError::Unreadable(error)),
            }
            tokio::select! {
                // In both cases the loop reads the object again.
                biased;
                () = changed => {}
                listed = status.changed() => {
                    let _ = listed; // never an error: the sender is in the informer
                }
            }
        }
    };
    timeout(within, holds).await.unwrap_or_else(|_| {
        let last = match informer.get(key).map(|object| object.meta().resource_version().cloned()) {
            Some(Some(version)) => format!("at version {version}"),
            Some(None) => "without a version".to_owned(),
            None if informer.check_synced_in(key.namespace()).is_err() => "not listed yet".to_owned(),
            None => "absent".to_owned(),
        };
        Err(UntilError::TimedOut {
            object: format!("{} {key}", informer.query().resource_name()),
            within,
            last,
        })
    })
}

fn read<K: Object>(informer: &Informer<K>, key: &ObjectKey<K>) -> Result<Option<Arc<K>>, ReadError> {
    informer.check_cluster()?;
    let found = match informer.get(key) {
        Some(found) => Some(found),
        None => {
            // If the initial list was completed since the first lookup, the object may be there now.
            informer.check_synced_in(key.namespace())?;
            informer.get(key)
        }
    };
    Ok(found.map(|object| object.object()).transpose()?)
}
