//! Waiting until something holds of a cached object.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{DecodeError, informer::Informer};
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
        /// `at version 5`, or `absent`.
        last: String,
    },
    /// The object does not fit its type.
    #[error("the object that is waited for is unreadable")]
    Unreadable(#[source] DecodeError),
}

pub(super) async fn until<K: Object>(
    informer: &Arc<Informer<K>>,
    key: &ObjectKey<K>,
    condition: impl Fn(Option<&K>) -> bool,
    within: Duration,
) -> Result<Option<Arc<K>>, UntilError> {
    let notify = informer.notify(key);
    let holds = async {
        loop {
            // Asked for before the look, so that a change right after it is not missed.
            let mut changed = pin!(notify.notified());
            changed.as_mut().enable();
            let object = informer.get(key).map(|object| object.object()).transpose();
            let object = object.map_err(UntilError::Unreadable)?;
            if condition(object.as_deref()) {
                return Ok(object);
            }
            changed.await;
        }
    };
    timeout(within, holds).await.unwrap_or_else(|_| {
        let last = informer.get(key).and_then(|object| object.meta().resource_version().cloned());
        let last = last.map_or_else(|| "absent".to_owned(), |version| format!("at version {version}"));
        Err(UntilError::TimedOut {
            object: format!("{} {key}", informer.query().resource_name()),
            within,
            last,
        })
    })
}
