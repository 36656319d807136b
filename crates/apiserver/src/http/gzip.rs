//! Compression of a body while it is read.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Whether bodies can be compressed.
pub(crate) const AVAILABLE: bool = true;

/// Compresses the body chunk by chunk, at kube-apiserver's level, the fastest.
pub(crate) fn compress(body: impl Iterator<Item = Bytes>) -> impl Iterator<Item = Bytes> {
    let mut rest = Some((body, GzEncoder::new(Vec::new(), Compression::fast())));
    std::iter::from_fn(move || {
        let (body, encoder) = rest.as_mut()?;
        for chunk in body {
            // Writing into a Vec cannot fail.
            encoder.write_all(&chunk).ok()?;
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Some(Bytes::from(compressed));
            }
        }
        let (_, encoder) = rest.take()?;
        Some(Bytes::from(encoder.finish().ok()?))
    })
}
