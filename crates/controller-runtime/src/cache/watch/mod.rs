//! Lists and watches: which request comes next (pure), the loop that sends it, and the decoding of answers while they arrive.

pub(super) mod access;
pub(super) mod backoff;
pub(super) mod definition;
pub(super) mod feed;
pub(super) mod items;
pub(super) mod list_watch;
pub(super) mod pieces;
pub(super) mod reflector;
pub(super) mod status;
pub(super) mod wire;
