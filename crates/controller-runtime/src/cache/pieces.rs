use bytes::{Buf, Bytes, BytesMut};

/// Bytes that arrive in chunks and are taken in pieces, wherever the chunks end.
///
/// A piece that lies within one chunk is taken without a copy.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// The beginning of the piece in hand, which came with earlier chunks.
    begun: BytesMut,
    chunk: Bytes,
}

/// A piece is longer than any object: ten times what the largest one takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("longer than {} MiB", Pieces::LONGEST >> 20)]
pub(crate) struct TooLong;

impl Pieces {
    pub(super) const LONGEST: usize = 32 << 20;

    /// Adds what was received.
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&*self.chunk, &*chunk].concat().into();
        }
    }

    /// What has not been looked at.
    pub(super) fn chunk(&self) -> &[u8] {
        &self.chunk
    }

    /// The piece in hand, which ends so far into the chunk.
    pub(super) fn take(&mut self, end: usize) -> Bytes {
        let end = self.chunk.split_to(end);
        if self.begun.is_empty() {
            return end;
        }
        self.begun.extend_from_slice(&end);
        self.begun.split().freeze()
    }

    /// The chunk has been looked at, and the piece in hand does not end in it.
    ///
    /// # Errors
    ///
    /// It is longer than 32 MiB.
    pub(super) fn keep(&mut self) -> Result<(), TooLong> {
        self.begun.extend_from_slice(&std::mem::take(&mut self.chunk));
        if self.begun.len() > Self::LONGEST { Err(TooLong) } else { Ok(()) }
    }

    /// Leaves out what stands before the piece in hand.
    pub(super) fn skip(&mut self, length: usize) {
        self.chunk.advance(length);
    }
}
