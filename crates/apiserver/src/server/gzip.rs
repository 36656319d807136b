//! Compression of a body that is already there.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;

/// Bytes that are compressed at a time, so that other requests of the thread have their turn in between.
const CHUNK: usize = 128 << 10;

/// The body as the chunks of a gzip file, made as they are asked for. kube-apiserver's level, the fastest.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as where there is no gzip")]
pub(super) fn stream(body: Bytes) -> Option<impl Stream<Item = Bytes> + Send + 'static> {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    Some(futures::stream::unfold(Some((body, encoder)), |rest| async move {
        let (mut body, mut encoder) = rest?;
        loop {
            let chunk = body.split_to(body.len().min(CHUNK));
            // Writing into a Vec cannot fail.
            if chunk.is_empty() {
                return Some((Bytes::from(encoder.finish().ok()?), None));
            }
            encoder.write_all(&chunk).ok()?;
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Some((Bytes::from(compressed), Some((body, encoder))));
            }
        }
    }))
}
