//! Reads the rest of request bodies that the response does not depend on.
//!
//! A request may be answered before its body is read, for example with 404 or 403. An HTTP/2 server that has finished a request
//! then resets the stream, and a client that is still sending takes the reset for the response. Short bodies are therefore read
//! first, as Go's server does between the requests of a connection.

use std::pin::Pin;

use bytes::Bytes;
use http::header;
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Duration, timeout};

/// Maximum number of bytes to read, as in Go.
const LIMIT: usize = 256 << 10;
/// Maximum time to read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the rest of a body, if it is short and arrives soon.
pub(crate) async fn drain<B>(head: &Parts, mut body: Pin<&mut B>)
where
    B: Body<Data = Bytes>,
{
    // A client that sends `Expect` waits for permission before it sends the body.
    if body.is_end_stream() || head.headers.contains_key(header::EXPECT) {
        return;
    }
    let rest = async {
        let mut read = 0;
        while read <= LIMIT
            && let Some(Ok(frame)) = body.frame().await
        {
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // The response does not depend on the body.
    let _ = timeout(DRAIN_TIMEOUT, rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServer;
    use crate::Options;
    use futures::channel::mpsc;
    use futures::{FutureExt, poll};
    use http::Request;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;
    use tokio::time::Instant;
    use tower_service::Service;

    type Sender = mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>;

    /// Sends a request to an unknown path with a body from the sender; returns the code of the response.
    fn send(expect: Option<&str>) -> (Sender, impl Future<Output = u16> + use<>) {
        let (sender, receiver) = mpsc::unbounded();
        let mut request = Request::post("/apis/example.com/v1/things");
        if let Some(expect) = expect {
            request = request.header(header::EXPECT, expect);
        }
        let server = ApiServer::start(Options::default());
        let answer = server.service().call(request.body(StreamBody::new(receiver)).unwrap());
        (sender, async move { answer.await.unwrap().status().as_u16() })
    }

    fn data(length: usize) -> Result<Frame<Bytes>, Infallible> {
        Ok(Frame::data(Bytes::from(vec![b'x'; length])))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_to_an_unknown_path_is_answered_after_its_body() {
        let (sender, answer) = send(None);
        let mut answer = std::pin::pin!(answer);
        assert!(poll!(answer.as_mut()).is_pending());
        sender.unbounded_send(data(10)).unwrap();
        assert!(poll!(answer.as_mut()).is_pending());
        drop(sender);
        let start = Instant::now();
        assert_eq!(answer.await, 404);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_or_late_body_is_not_waited_for() {
        let (_sender, answer) = send(None);
        let start = Instant::now();
        assert_eq!(answer.await, 404);
        assert_eq!(start.elapsed(), DRAIN_TIMEOUT);
        let (sender, answer) = send(None);
        sender.unbounded_send(data(LIMIT + 1)).unwrap();
        assert_eq!(answer.now_or_never(), Some(404));
        let (_sender, answer) = send(Some("100-continue"));
        assert_eq!(answer.now_or_never(), Some(404), "the client waits for 100 Continue");
    }
}
