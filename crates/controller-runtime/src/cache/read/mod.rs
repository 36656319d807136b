//! Handles of users: caches, selections, indexes, views and event streams.

pub(crate) mod cached;
pub(super) mod caches;
pub(super) mod event_stream;
pub(super) mod index;
pub(super) mod selection;
pub(super) mod until;
pub(super) mod view;
