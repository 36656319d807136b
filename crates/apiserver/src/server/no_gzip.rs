//! Compression in a build without the feature `gzip`: bodies stay as they are.

use bytes::Bytes;

/// Bodies cannot be compressed.
pub(super) const AVAILABLE: bool = false;

/// The body as it is.
pub(super) fn pieces(body: impl Iterator<Item = Bytes>) -> impl Iterator<Item = Bytes> {
    body
}
