//! Buffer that joins received chunks into pieces.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes that are received in chunks and taken in pieces, which may cross the ends of chunks.
///
/// A piece within one chunk is taken without a copy.
#[derive(Debug, Default)]
pub(in crate::cache) struct ChunkBuffer {
    /// Beginning of the current piece, from earlier chunks.
    begun: BytesMut,
    /// The rest of the last chunk.
    chunk: Bytes,
}

/// A piece exceeds 32 MiB, ten times the largest object that etcd stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("longer than {} MiB", ChunkBuffer::LONGEST >> 20)]
pub(crate) struct TooLong;

impl ChunkBuffer {
    pub(in crate::cache) const LONGEST: usize = 32 << 20;

    /// Adds received bytes.
    pub(in crate::cache) fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            // A copy, but a rare one: decoders consume a chunk before they receive the next.
            self.chunk = [&*self.chunk, &*chunk].concat().into();
        }
    }

    /// Returns the bytes that have not been scanned.
    pub(in crate::cache) fn chunk(&self) -> &[u8] {
        &self.chunk
    }

    /// Takes the current piece, which ends at this offset of the chunk.
    pub(in crate::cache) fn take(&mut self, end: usize) -> Bytes {
        let end = self.chunk.split_to(end);
        if self.begun.is_empty() {
            return end;
        }
        self.begun.extend_from_slice(&end);
        self.begun.split().freeze()
    }

    /// Stores the scanned chunk, in which the current piece does not end.
    ///
    /// # Errors
    ///
    /// The piece is longer than 32 MiB.
    pub(in crate::cache) fn keep(&mut self) -> Result<(), TooLong> {
        self.begun.extend_from_slice(&std::mem::take(&mut self.chunk));
        if self.begun.len() > Self::LONGEST { Err(TooLong) } else { Ok(()) }
    }

    /// Drops bytes before the current piece.
    pub(in crate::cache) fn skip(&mut self, length: usize) {
        self.chunk.advance(length);
    }
}
