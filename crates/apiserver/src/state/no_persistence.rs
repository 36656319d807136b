//! Stand-in for persistence in a build without the feature `persistence`.

use std::sync::Arc;

use kube_apimachinery::status::ApiError;

use crate::kind::resource::StorageKey;
use crate::store::{Key, Stored};

/// Uninhabited: there is no journal in this build.
pub(crate) enum CommitJournal {}

impl CommitJournal {
    pub(crate) fn is_writable(&self) -> bool {
        match *self {}
    }

    pub(crate) fn record(&self, _: &StorageKey, _: &Key, _: u64, _: Option<Arc<Stored>>) {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "same signature as with the feature `persistence`")]
    pub(crate) async fn kept(&self, _: u64) -> Result<(), ApiError> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "same signature as with the feature `persistence`")]
    pub(crate) async fn writable(&self) -> Result<(), ApiError> {
        match *self {}
    }
}
