//! Calls of webhooks: one POST of a JSON document over HTTPS, for admission and for conversion.
//!
//! A [`ClientConfig`] is the configuration of one webhook, with the open connections to it. When the configuration changes, its
//! `ClientConfig` is dropped, which closes these connections. Error texts are those of kube-apiserver, which come from Go's HTTP client
//! and from client-go.
//!
//! Unlike kube-apiserver, the client follows no redirects and does not trust the root certificates of the system: a configuration needs
//! a `caBundle`.

mod call_error;
mod client_config;
mod decode_review;
#[cfg_attr(not(feature = "tls"), path = "no_sockets.rs")]
mod sockets;
mod transport;
mod webhook_response;
#[cfg(feature = "tls")]
mod webhook_tls;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use tokio::time::{Duration, timeout_at};

pub(crate) use self::call_error::CallError;
pub(crate) use self::client_config::{ClientConfig, ServiceReference};
pub(crate) use self::decode_review::decode as decode_review;
pub(crate) use self::decode_review::wrong_type;
use self::sockets::Sockets;
pub use self::transport::WebhookTransport;

/// Whether the URL contains the timeout of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutQuery {
    /// `?timeout=10s`, rounded up to whole seconds.
    Sent,
    Omitted,
}

/// Client of all webhooks of a server.
pub(crate) struct WebhookClient {
    transport: Option<Arc<dyn WebhookTransport>>,
    sockets: Sockets,
}

impl WebhookClient {
    /// Creates a client. `transport` can answer calls within the process.
    pub(crate) fn new(transport: Option<Arc<dyn WebhookTransport>>) -> Self {
        Self { transport, sockets: Sockets::default() }
    }

    /// POSTs a JSON document and returns the body of the response. `address` is the resolved address of the
    /// [service](client_config::WebhookAddress::Service) if `config` names one.
    ///
    /// Dropping the future closes the connection of the call.
    ///
    /// # Errors
    /// The call failed, took longer than `timeout`, or its response is not a success.
    pub(crate) async fn post(
        &self,
        config: &ClientConfig,
        address: Option<Result<String, String>>,
        body: Bytes,
        timeout: Duration,
        query: TimeoutQuery,
    ) -> Result<Bytes, CallError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let url = match query {
            TimeoutQuery::Sent => format!("{}?timeout={}s", config.url(), timeout.as_millis().div_ceil(1000)),
            TimeoutQuery::Omitted => config.url().to_owned(),
        };
        let failed = |why: String| CallError::Post { url: url.clone(), why };
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.parse().map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
        for (name, value) in [
            (header::ACCEPT, "application/json, */*"),
            (header::CONTENT_TYPE, "application/json"),
            (header::USER_AGENT, "kube-apiserver-admission"),
        ] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        // A connection of hyper, unlike its pooled client, does not add this header.
        if let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().insert(header::HOST, host);
        }
        let answered = async {
            // Asked before the address is used: the process may answer for a service that has no endpoint.
            if let Some(transport) = &self.transport
                && let Some(answer) = transport.call(&request)
            {
                return answer.await.map_err(failed);
            }
            let address = match address {
                Some(address) => Some(address.map_err(failed)?),
                None => None,
            };
            self.sockets.exchange(config, address, request).await.map_err(|error| match error {
                webhook_response::ExchangeFailure::Settings(why) => CallError::Settings(why),
                webhook_response::ExchangeFailure::Exchange(why) => failed(why),
            })
        };
        // Boxed, so that futures of requests without webhooks do not contain the state of a connection.
        let response = match timeout_at(deadline, Box::pin(answered)).await {
            Ok(response) => response?,
            Err(_elapsed) => return Err(failed("context deadline exceeded".to_owned())),
        };
        webhook_response::body_of(response)
    }
}

#[cfg(test)]
mod tests;
