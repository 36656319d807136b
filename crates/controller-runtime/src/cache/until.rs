//! Waiting until something holds of a cached object.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{ReadError, informer::Informer};
use crate::object::{Object, ObjectKey};

/// Why a wait for a condition ended without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// It did not hold within the time.
    #[error("{object} was not as awaited within {} s; it was last seen {last}", within.as_secs_f32())]
    TimedOut {
        /// Resource and key of the object.
        object: String,
        /// How long it was waited for.
        within: Duration,
        /// `at version 5`, `absent`, or `not listed yet`.
        last: String,
    },
    /// The object does not fit its type, or the cache does not hold its namespace.
    #[error("the object that is waited for is unreadable")]
    Unreadable(#[source] ReadError),
}

pub(super) async fn until<K: Object>(
    informer: &Arc<Informer<K>>,
    key: &ObjectKey<K>,
    condition: impl Fn(Option<&K>) -> bool,
    within: Duration,
) -> Result<Option<Arc<K>>, UntilError> {
    let (notify, mut status) = (informer.notify(key), informer.status());
    let holds = async {
        loop {
            // Asked for before the look, so that a change right after it is not missed.
            let mut changed = pin!(notify.notified());
            changed.as_mut().enable();
            status.mark_unchanged();
            match read(informer, key) {
                Ok(object) if condition(object.as_deref()) => return Ok(object),
                Ok(_) | Err(ReadError::NotSynced { .. }) => {}
                Err(error) => return Err(UntilError::Unreadable(error)),
            }
            tokio::select! {
                () = changed => {}
                listed = status.changed() => {
                    let _ = listed; // the sender lives in the informer
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
    let found = match informer.get(key) {
        Some(found) => Some(found),
        None => {
            informer.check_synced_in(key.namespace())?;
            informer.get(key)
        }
    };
    Ok(found.map(|object| object.object()).transpose()?)
}
