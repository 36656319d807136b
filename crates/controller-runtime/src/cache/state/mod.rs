//! The objects of a query and their subscribers: watched states with own writes over them, indexes, waiting events.

pub(super) mod coalesced;
pub(super) mod index_table;
pub(super) mod informer;
pub(super) mod mailbox;
pub(super) mod matches;
pub(crate) mod read_error;
pub(super) mod registry;
pub(super) mod store;
pub(super) mod sync;
pub(super) mod tombstones;
pub(super) mod troubled_objects;
pub(super) mod write_fanout;
