//! Reading of request bodies, within a limit for each body and a limit for all together.
//!
//! A body may have 3 MiB, but a single connection may carry a thousand bodies at once. Bytes beyond the first 64 KiB of each body are
//! therefore taken from a shared pool until the request is done. If the pool is empty, the answer is 429. Most bodies are smaller than 64
//! KiB and need no bytes of the pool.

use std::fmt::Display;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube_apimachinery::status::ApiError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request::request_body;

/// Number of bytes of each body that are not taken from the pool.
const OUTSIDE_POOL: usize = 64 << 10;
/// Size of the shared pool in bytes.
const SHARED: usize = 128 << 20;

/// The shared pool.
#[derive(Debug)]
pub(crate) struct BodyLimit(Arc<Semaphore>);

impl Default for BodyLimit {
    fn default() -> Self {
        Self::new(SHARED)
    }
}

/// A body and its share of the pool, which is returned on drop.
#[derive(Debug)]
pub(crate) struct LimitedBody {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl BodyLimit {
    /// Creates a pool of this many bytes.
    fn new(shared: usize) -> Self {
        Self(Arc::new(Semaphore::new(shared)))
    }

    /// Reads a whole body of at most [`request_body::LIMIT`] bytes. Cancel safe: dropping the future returns its share of the pool.
    ///
    /// # Errors
    /// 413 if the body is too large, 429 if the pool is empty, 400 if the body cannot be read.
    pub(crate) async fn read<B>(&self, body: B) -> Result<LimitedBody, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Display,
    {
        let mut body = std::pin::pin!(body);
        let mut bytes = BytesMut::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.as_mut().frame().await {
            let frame = frame.map_err(|error| {
                ApiError::bad_request(format!("the body of the request could not be read: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let length = bytes.len() + data.len();
            if length > request_body::LIMIT {
                return Err(request_body::too_large());
            }
            let taken = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let wanted = length.saturating_sub(OUTSIDE_POOL).saturating_sub(taken);
            if wanted > 0 {
                let more = self.take(wanted).ok_or_else(full)?;
                match &mut room {
                    Some(room) => room.merge(more),
                    None => room = Some(more),
                }
            }
            bytes.extend_from_slice(&data);
        }
        Ok(LimitedBody { bytes: bytes.freeze(), _room: room })
    }

    /// Takes a share of the pool without waiting: a waiting body would block others with the share that it already holds.
    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}

/// Builds the 429 for a body that does not fit into the pool.
fn full() -> ApiError {
    let why = "too many large request bodies are being processed, please try again later";
    ApiError::new(429, "TooManyRequests", why).with_retry_after(1)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::channel::mpsc;
    use futures::poll;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn body(length: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b'x'; length]))
    }

    #[tokio::test]
    async fn large_bodies_share_the_pool_and_small_ones_need_none_of_it() {
        let intake = BodyLimit::new(1 << 20);
        let (sender, receiver) = mpsc::unbounded();
        let mut slow = Box::pin(intake.read(StreamBody::new(receiver)));
        for _ in 0..3 {
            let piece: Result<_, Infallible> = Ok(Frame::data(Bytes::from(vec![b'x'; 300 << 10])));
            sender.unbounded_send(piece).unwrap();
        }
        assert!(poll!(slow.as_mut()).is_pending());
        let refused = intake.read(body(1 << 20)).await.unwrap_err();
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
        assert_eq!(intake.read(body(OUTSIDE_POOL)).await.unwrap().bytes.len(), OUTSIDE_POOL);
        // A body holds its share until it is dropped.
        drop(sender);
        let taken = slow.await.unwrap();
        assert_eq!(taken.bytes.len(), 900 << 10);
        assert_eq!(intake.read(body(1 << 20)).await.unwrap_err().code(), 429);
        drop(taken);
        assert_eq!(intake.read(body(1 << 20)).await.unwrap().bytes.len(), 1 << 20);
        assert_eq!(intake.0.available_permits(), 1 << 20);
    }

    #[tokio::test]
    async fn refused_and_cancelled_bodies_return_their_share() {
        let intake = BodyLimit::new(8 << 20);
        assert_eq!(intake.read(body(request_body::LIMIT + 1)).await.unwrap_err().code(), 413);
        let (sender, receiver) = mpsc::unbounded();
        let mut given_up = Box::pin(intake.read(StreamBody::new(receiver)));
        let piece: Result<_, Infallible> = Ok(Frame::data(Bytes::from(vec![b'x'; 2 << 20])));
        sender.unbounded_send(piece).unwrap();
        assert!(poll!(given_up.as_mut()).is_pending());
        assert!(intake.0.available_permits() < 8 << 20);
        drop(given_up);
        assert_eq!(intake.0.available_permits(), 8 << 20);
    }
}
