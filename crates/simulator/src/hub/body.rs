//! Bodies of responses under the driver's control.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use kube_apiserver_embedded::ResponseBody;

use super::Hub;

/// Body of a response, as a process reads it.
pub(crate) enum GateBody {
    /// A response that is complete or generated while it is read.
    Whole(ResponseBody),
    Watch(WatchBody),
}

/// Body of a watch, which ends with the process.
pub(crate) struct WatchBody {
    pub(crate) hub: Hub,
    pub(crate) id: u64,
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
            Self::Watch(watch) => watch
                .hub
                .poll_read(watch.id, context)
                .map(|chunk| chunk.map(|chunk| Ok(http_body::Frame::data(chunk)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Watch(_) => false,
        }
    }
}
