//! Without the feature `websocket` the header that asks for an upgrade is ignored, as HTTP allows: the client gets an ordinary watch.

use http::{Request, Response};
use tokio::task::JoinSet;

use crate::response::ResponseBody;

/// Uninhabited: no request is upgraded.
pub(super) enum Upgrade {}

impl Upgrade {
    pub(super) fn of<B>(_: &mut Request<B>) -> Option<Self> {
        None
    }

    pub(super) fn accept(self, _: &mut Response<ResponseBody>, _: &mut JoinSet<()>) {
        match self {}
    }
}
