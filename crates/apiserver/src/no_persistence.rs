//! Persistence in a build without the feature `persistence`: there never is any.

use std::sync::Arc;

use crate::resource::StorageKey;
use crate::status::ApiError;
use crate::store::{Key, Stored};

/// No value of this exists.
pub(crate) enum Journal {}

impl Journal {
    pub(crate) fn is_writable(&self) -> bool {
        match *self {}
    }

    pub(crate) fn record(&self, _: &StorageKey, _: &Key, _: u64, _: Option<Arc<Stored>>) {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as where there is persistence")]
    pub(crate) async fn kept(&self, _: u64) -> Result<(), ApiError> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as where there is persistence")]
    pub(crate) async fn writable(&self) -> Result<(), ApiError> {
        match *self {}
    }
}
