//! Compression in a build without the feature `gzip`: bodies stay as they are.

use bytes::Bytes;

/// Nothing.
pub(super) fn stream(_: Bytes) -> Option<futures::stream::Empty<Bytes>> {
    None
}
