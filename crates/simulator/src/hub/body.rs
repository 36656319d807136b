//! Bodies of responses under the driver's control.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::Full;
use kube_apiserver_embedded::ResponseBody;
use tokio::task::yield_now;

use super::Hub;

/// Body of a response, as a process reads it.
pub(crate) enum GateBody {
    /// A response that is complete or generated while it is read.
    Whole(ResponseBody),
    /// A response that the server has no part in.
    Refusal(Full<Bytes>),
    Watch(WatchBody),
}

/// Body of a watch, which ends with the process. All other tasks that are ready run between two chunks.
pub(crate) struct WatchBody {
    hub: Hub,
    id: u64,
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl WatchBody {
    pub(crate) fn new(hub: Hub, id: u64) -> Self {
        Self { hub, id, pause: None }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // The pause lets the tasks that the first line woke, such as a reconcile, run before the process
        // reads the others.
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let Some(chunk) = ready!(self.hub.poll_read(self.id, context)) else { return Poll::Ready(None) };
        if !chunk.is_last && !self.hub.prefers_user() {
            self.pause = Some(Box::pin(yield_now()));
        }
        Poll::Ready(Some(chunk.text))
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.hub.close(self.id);
    }
}

impl http_body::Body for GateBody {
    type Data = Bytes;
    type Error = kube_apiserver_embedded::faults::ConnectionReset;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Refusal(body) => Pin::new(body)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            Self::Watch(watch) => {
                // A watch never fails here: a crash drops it, and an expiry ends it with a line.
                watch.poll_read(context).map(|chunk| chunk.map(|text| Ok(http_body::Frame::data(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Refusal(body) => body.is_end_stream(),
            Self::Watch(_) => false,
        }
    }
}
