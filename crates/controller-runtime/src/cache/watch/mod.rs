//! Lists and watches: which request comes next (pure), the loop that sends it, and the decoding of answers while they arrive.

pub(super) mod backoff;
pub(super) mod chunk_buffer;
pub(super) mod definition;
pub(super) mod list_decoder;
pub(super) mod list_watch;
pub(super) mod missing_right;
pub(super) mod reflector;
pub(super) mod shared_watch;
pub(super) mod subscriber;
pub(super) mod sync_status;
pub(super) mod watch_decoder;
