//! Timeouts of clients that send requests.
//!
//! The values are controller-runtime's, and the same for both versions of HTTP. Hyper has one timeout for HTTP/1.1, which
//! includes the idle time before a request, and none for HTTP/2.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

/// Time for sending the head of a request; for the first request it starts with the handshake.
const READ_HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// Time from one response to the next request, including the reading of the response.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The event that a connection waits for, and the start of the wait. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// The first request.
    First(Instant),
    /// Another request.
    Next(Instant),
    /// The rest of a request.
    Rest(Instant),
    /// This number of responses, for which the client waits. Its time does not count meanwhile.
    Answers(usize),
}

impl Waiting {
    /// Time at which the client has taken too long.
    fn until(self) -> Option<Instant> {
        match self {
            Self::First(since) | Self::Rest(since) => Some(since + READ_HEADER_TIMEOUT),
            Self::Next(since) => Some(since + IDLE_TIMEOUT),
            Self::Answers(_) => None,
        }
    }

    /// Handles bytes of a request from the client.
    fn bytes_arrived(self, now: Instant) -> Self {
        match self {
            Self::Next(_) => Self::Rest(now),
            // More bytes of a request do not extend its time.
            other => other,
        }
    }

    /// Handles a complete request head.
    fn request_began(self) -> Self {
        match self {
            Self::Answers(others) => Self::Answers(others + 1),
            _ => Self::Answers(1),
        }
    }

    /// Handles the end of a request.
    fn request_ended(self, now: Instant) -> Self {
        match self {
            Self::Answers(many @ 2..) => Self::Answers(many - 1),
            _ => Self::Next(now),
        }
    }
}

/// Timeout of one client. A handle: clones share it.
#[derive(Debug, Clone)]
pub(super) struct ReadTimeout(Arc<Mutex<Waiting>>);

impl ReadTimeout {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Waiting::First(Instant::now()))))
    }

    /// Counts a request, until the returned value is dropped with the response or the cancelled request.
    #[must_use]
    pub(super) fn request_begins(&self) -> RunningRequest {
        let mut waiting = self.0.lock();
        *waiting = waiting.request_began();
        RunningRequest(self.clone())
    }

    /// Returns whether the client has to complete a request, or to send its first.
    pub(super) fn is_inside_request(&self) -> bool {
        matches!(*self.0.lock(), Waiting::First(_) | Waiting::Rest(_))
    }

    /// Waits until the client's time is over.
    ///
    /// The state is read again after at most [`READ_HEADER_TIMEOUT`], instead of being observed, so that a request neither wakes this
    /// task nor sets a timer. No deadline is missed, because every change of the state sets one that is at least as far away.
    pub(super) async fn elapsed(&self) {
        loop {
            let (until, now) = (self.0.lock().until(), Instant::now());
            if until.is_some_and(|until| until <= now) {
                return;
            }
            let again = now + READ_HEADER_TIMEOUT;
            sleep_until(until.map_or(again, |until| until.min(again))).await;
        }
    }

    fn bytes_arrived(&self) {
        let mut waiting = self.0.lock();
        // The clock is read for the first bytes of a request only.
        if matches!(*waiting, Waiting::Next(_)) {
            *waiting = waiting.bytes_arrived(Instant::now());
        }
    }
}

const _: () = assert!(READ_HEADER_TIMEOUT.as_secs() <= IDLE_TIMEOUT.as_secs());

/// A running request.
#[derive(Debug)]
pub(super) struct RunningRequest(ReadTimeout);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut waiting = self.0.0.lock();
        *waiting = waiting.request_ended(Instant::now());
    }
}

/// A stream on which every byte from the client is part of a request, as over HTTP/1.1.
#[derive(Debug)]
pub(super) struct TimedStream<S> {
    pub(super) stream: S,
    pub(super) read_timeout: ReadTimeout,
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.read_timeout.bytes_arrived();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_has_32_s_for_a_request_and_90_s_to_the_next() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let left = |waiting: Waiting| waiting.until().map(|until| (until - began).as_secs());
        let first = Waiting::First(began);
        assert_eq!(left(first), Some(32));
        assert_eq!(
            left(first.bytes_arrived(at(10))),
            Some(32),
            "the head of the first request counts from the start"
        );
        let two = first.request_began().request_began();
        assert_eq!(left(two), None, "answers are ours to give");
        assert_eq!(left(two.request_ended(at(100))), None, "one is still to be given");
        let idle = two.request_ended(at(100)).request_ended(at(100));
        assert_eq!(left(idle), Some(190));
        assert_eq!(left(idle.bytes_arrived(at(150)).bytes_arrived(at(160))), Some(182));
        assert_eq!(left(two.bytes_arrived(at(100))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_is_set_during_the_wait_is_met() {
        // The state is read after 32 s, 64 s, and so on; the requests begin and end in between.
        for begins in [1, 31, 32, 33, 63, 80] {
            let (read_timeout, began) = (ReadTimeout::new(), Instant::now());
            let client = async {
                drop(read_timeout.request_begins());
                sleep(Duration::from_secs(begins)).await;
                read_timeout.bytes_arrived();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = read_timeout.elapsed() => {}
                () = client => {}
            }
            assert_eq!(began.elapsed().as_secs(), begins + 32);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_elapses_when_the_time_is_over_and_not_while_a_request_is_in_work() {
        let (read_timeout, began) = (ReadTimeout::new(), Instant::now());
        let client = async {
            sleep(Duration::from_secs(31)).await;
            let running = read_timeout.request_begins();
            sleep(Duration::from_secs(1000)).await;
            drop(running);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = read_timeout.elapsed() => {}
            () = client => {}
        }
        assert_eq!(began.elapsed().as_secs(), 31 + 1000 + 90);
        advance(Duration::from_secs(1)).await;
        let still_elapsed = tokio::time::timeout(Duration::ZERO, read_timeout.elapsed()).await;
        assert!(still_elapsed.is_ok(), "it does not come back");
    }
}
