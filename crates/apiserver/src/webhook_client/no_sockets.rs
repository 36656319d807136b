//! Calls of webhooks in a build without TLS: only a transport in the process can answer them.

use bytes::Bytes;
use http::{Request, Response};

use super::ClientConfig;
use super::webhook_response::ExchangeFailure;

#[derive(Debug, Default)]
pub(super) struct Connections {}

#[derive(Default)]
pub(super) struct Sockets {}

impl Sockets {
    pub(super) async fn exchange(
        &self,
        _config: &ClientConfig,
        _address: Option<String>,
        _request: Request<Bytes>,
    ) -> Result<Response<Bytes>, ExchangeFailure> {
        let why =
            "this server is built without its feature `tls`, so that it only calls webhooks in its process";
        Err(ExchangeFailure::Exchange(why.to_owned()))
    }
}
