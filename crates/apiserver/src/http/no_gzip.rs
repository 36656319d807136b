//! Stand-in for compression in a build without the feature `gzip`: bodies are unchanged.

use bytes::Bytes;

/// Whether bodies can be compressed.
pub(crate) const AVAILABLE: bool = false;

/// Returns the body unchanged.
pub(crate) fn compress(body: impl Iterator<Item = Bytes>) -> impl Iterator<Item = Bytes> {
    body
}
