//! The body of an answer.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// The body of an answer: complete, or a stream, as of a watch.
///
/// A watch produces its next event only when it is asked for it, so a client that does not read costs nothing but its
/// place in the history of the resource.
pub struct ResponseBody(Inner);

enum Inner {
    Full(Option<Bytes>),
    /// The mutex is never locked: it makes the stream `Sync`, which some transports ask for.
    Stream(Mutex<Pin<Box<dyn Stream<Item = Bytes> + Send>>>),
}

impl ResponseBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Inner::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// The whole body, if it is complete.
    pub(super) fn as_full(&self) -> Option<&Bytes> {
        match &self.0 {
            Inner::Full(bytes) => bytes.as_ref(),
            Inner::Stream(_) => None,
        }
    }

    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Stream(Mutex::new(Box::pin(stream))))
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Full(bytes) => f.debug_tuple("Full").field(&bytes.as_ref().map_or(0, Bytes::len)).finish(),
            Inner::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Stream(stream) => stream
                .get_mut()
                .as_mut()
                .poll_next(context)
                .map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
