//! The body of an answer.

use std::fmt;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use super::progress::Progress;
use crate::faults::ConnectionReset;

/// The body of an answer: complete, made while it is taken, as of a large list, or a stream, as of a watch.
///
/// A watch produces its next event only when it is asked for it, so a client that does not read costs nothing but its
/// place in the history of the resource.
pub struct ResponseBody {
    inner: Inner,
    /// Told what is taken, where somebody wants to know.
    progress: Option<Progress>,
    /// Whether a piece was made since others had their turn.
    made: bool,
}

enum Inner {
    Full(Option<Bytes>),
    /// Made as it is asked for, without waiting.
    Pieces(Mutex<Pieces>),
    /// The mutex is never locked: it makes the stream `Sync`, which some transports ask for.
    Stream(Mutex<Pin<Box<dyn Stream<Item = Bytes> + Send>>>),
    /// A complete body, or pieces, to be taken in time.
    Timed(Timed),
    /// Another body, of which so many bytes are still to be sent before its end; `None` once the end is due.
    Cut(Box<ResponseBody>, Option<u64>, CutEnd),
}

/// The end of a body that is cut by a fault.
enum CutEnd {
    /// The connection closes.
    Reset,
    /// Nothing arrives any more until the future is ready; then the connection closes. The mutex is never locked, as that of
    /// [`Inner::Stream`].
    Silence(Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>),
}

impl CutEnd {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
        if let Self::Silence(until) = self {
            ready!(until.get_mut().as_mut().poll(context));
            *self = Self::Reset;
        }
        Poll::Ready(Some(Err(ConnectionReset)))
    }
}

/// Bytes of a whole body that are handed over at a time. Those are held by the connection until its client takes them, so
/// that one who does not costs no more than this, a watch's chunk.
const PIECE: usize = 64 << 10;

/// A body that is made a piece at a time, when it is asked for.
pub(super) struct Pieces {
    /// What was made and not handed over yet.
    made: Option<Bytes>,
    more: Box<dyn Iterator<Item = Bytes> + Send>,
}

impl Pieces {
    /// Bytes to come, where all is made.
    fn len(&self) -> Option<usize> {
        let is_made = self.more.size_hint().1 == Some(0);
        is_made.then(|| self.made.as_ref().map_or(0, Bytes::len))
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.made.is_none() {
            self.made = self.more.next();
        }
        next_piece(&mut self.made)
    }
}

impl ResponseBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::new(Inner::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// The whole body, if it is complete.
    pub(super) fn as_full(&self) -> Option<&Bytes> {
        match &self.inner {
            Inner::Full(bytes) => bytes.as_ref(),
            Inner::Pieces(_) | Inner::Stream(_) | Inner::Timed(_) | Inner::Cut(..) => None,
        }
    }

    /// Takes the body out in pieces, if it is one that is made without waiting.
    pub(super) fn take_pieces(&mut self) -> Option<Pieces> {
        match std::mem::replace(&mut self.inner, Inner::Full(None)) {
            Inner::Full(made) => Some(Pieces { made, more: Box::new(iter::empty()) }),
            Inner::Pieces(pieces) => Some(pieces.into_inner()),
            other => {
                self.inner = other;
                None
            }
        }
    }

    /// Whether it is made as it is asked for, because it is large.
    pub(super) fn is_in_pieces(&self) -> bool {
        matches!(self.inner, Inner::Pieces(_))
    }

    /// Whether pieces are still to be made.
    fn is_made_in_pieces(&self) -> bool {
        match &self.inner {
            Inner::Pieces(_) => true,
            Inner::Timed(timed) => timed.left().is_none(),
            Inner::Full(_) | Inner::Stream(_) => false,
            Inner::Cut(body, ..) => body.is_made_in_pieces(),
        }
    }

    /// Lets go of a large body that was not taken within `time`, but for streams: whoever reads on finds it cut. A client that
    /// takes a little now and then would hold all of it, or what it is made of, for as long as it likes.
    pub(super) fn expire_after(&mut self, time: Duration) {
        let is_large = self.is_in_pieces() || self.as_full().is_some_and(|bytes| bytes.len() > PIECE);
        if is_large && let Some(pieces) = self.take_pieces() {
            self.inner = Inner::Timed(Timed::new(pieces, time));
        }
    }

    /// A body that is made as its client takes it. It is handed over in pieces of 64 KiB at most.
    pub(crate) fn pieces(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self::new(Inner::Pieces(Mutex::new(Pieces { made: None, more: Box::new(pieces) })))
    }

    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(Inner::Stream(Mutex::new(Box::pin(stream))))
    }

    /// The same body, of which only the first `bytes` are sent.
    pub(super) fn cut_after(self, bytes: u64) -> Self {
        Self::new(Inner::Cut(Box::new(self), Some(bytes), CutEnd::Reset))
    }

    /// The same body, of which only the first `bytes` are sent; then nothing until `until_closed` is ready.
    pub(super) fn stalled_after(
        self,
        bytes: u64,
        until_closed: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let end = CutEnd::Silence(Mutex::new(Box::pin(until_closed)));
        Self::new(Inner::Cut(Box::new(self), Some(bytes), end))
    }

    fn new(inner: Inner) -> Self {
        Self { inner, progress: None, made: false }
    }

    /// Tells `progress` from now on what is taken.
    pub(super) fn report_to(&mut self, progress: Progress) {
        self.progress = Some(progress);
    }

    fn poll_inner(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
        match &mut self.inner {
            Inner::Full(rest) => Poll::Ready(next_piece(rest).map(|piece| Ok(Frame::data(piece)))),
            Inner::Pieces(pieces) => Poll::Ready(pieces.get_mut().next().map(|piece| Ok(Frame::data(piece)))),
            Inner::Timed(timed) => Poll::Ready(timed.next().map(|piece| piece.map(Frame::data))),
            Inner::Stream(stream) => stream
                .get_mut()
                .as_mut()
                .poll_next(context)
                .map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Cut(body, left, end) => {
                let Some(most) = *left else {
                    return end.poll(context);
                };
                let Some(Ok(frame)) = ready!(body.poll_inner(context)) else {
                    return Poll::Ready(None);
                };
                let mut bytes = frame.into_data().unwrap_or_default();
                *left = most.checked_sub(bytes.len() as u64);
                if left.is_none() {
                    if most == 0 {
                        return end.poll(context);
                    }
                    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
        }
    }
}

fn next_piece(rest: &mut Option<Bytes>) -> Option<Bytes> {
    match rest {
        Some(bytes) if bytes.len() > PIECE => Some(bytes.split_to(PIECE)),
        rest => rest.take(),
    }
}

/// What is left of a body, for a time.
struct Timed {
    rest: Arc<Mutex<Rest>>,
    /// Ends with this.
    _timer: JoinSet<()>,
}

enum Rest {
    Left(Pieces),
    Taken,
    Late,
}

impl Timed {
    fn new(pieces: Pieces, time: Duration) -> Self {
        let rest = Arc::new(Mutex::new(Rest::Left(pieces)));
        let timed = Arc::clone(&rest);
        let mut timer = JoinSet::new();
        // The time begins now, not when the task does.
        let end = sleep(time);
        timer.spawn(async move {
            end.await;
            let mut rest = timed.lock();
            if matches!(&*rest, Rest::Left(_)) {
                *rest = Rest::Late;
            }
        });
        Self { rest, _timer: timer }
    }

    fn next(&self) -> Option<Result<Bytes, ConnectionReset>> {
        let mut rest = self.rest.lock();
        let pieces = match &mut *rest {
            Rest::Left(pieces) => pieces,
            Rest::Taken => return None,
            Rest::Late => return Some(Err(ConnectionReset)),
        };
        let piece = pieces.next();
        if piece.is_none() || pieces.len() == Some(0) {
            *rest = Rest::Taken;
        }
        piece.map(Ok)
    }

    fn is_taken(&self) -> bool {
        matches!(&*self.rest.lock(), Rest::Taken)
    }

    /// Bytes that are still to be taken, where that is known.
    fn left(&self) -> Option<usize> {
        match &*self.rest.lock() {
            Rest::Left(pieces) => pieces.len(),
            Rest::Taken => Some(0),
            Rest::Late => None,
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Inner::Full(bytes) => f.debug_tuple("Full").field(&bytes.as_ref().map_or(0, Bytes::len)).finish(),
            Inner::Pieces(_) => f.write_str("Pieces"),
            Inner::Stream(_) => f.write_str("Stream"),
            Inner::Timed(timed) => f.debug_tuple("Timed").field(&timed.left()).finish(),
            Inner::Cut(body, left, _) => f.debug_tuple("Cut").field(body).field(left).finish(),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ConnectionReset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
        if self.made {
            // A client that takes as fast as pieces are made would keep everybody else waiting for the whole of a list.
            self.made = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.poll_inner(context);
        self.made = self.is_made_in_pieces() && matches!(next, Poll::Ready(Some(_)));
        if let Some(progress) = &self.progress {
            progress.set(matches!(next, Poll::Ready(Some(_))));
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Full(rest) => rest.is_none(),
            Inner::Timed(timed) => timed.is_taken(),
            Inner::Pieces(_) | Inner::Stream(_) => false,
            Inner::Cut(body, left, _) => left.is_some() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Inner::Timed(timed) => {
                timed.left().map_or_else(SizeHint::default, |left| SizeHint::with_exact(left as u64))
            }
            Inner::Pieces(_) | Inner::Stream(_) => SizeHint::default(),
            // What is promised is more than what is sent: that is the fault.
            Inner::Cut(body, ..) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::advance;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    fn large() -> ResponseBody {
        let mut body = ResponseBody::full(vec![b'x'; 3 * PIECE]);
        body.expire_after(TIME);
        body
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_taken_in_time_is_let_go() {
        let mut body = large();
        assert_eq!(body.size_hint().exact(), Some(3 * PIECE as u64));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE);
        advance(TIME - Duration::from_millis(1)).await;
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE);
        sleep(Duration::from_millis(2)).await;
        assert!(
            matches!(&body.inner, Inner::Timed(timed) if timed.left().is_none()),
            "nothing is held any more"
        );
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_taken_in_time_is_whole() {
        let mut body = large();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(read, 3 * PIECE);
        assert!(body.is_end_stream());
        sleep(TIME * 2).await;
        assert!(body.is_end_stream(), "it was taken, however long ago");
    }
}
