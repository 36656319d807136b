//! The layers between a client and the [`kube::Client`] underneath: metrics, the check of declared rights, and [`SendOnce`].
//!
//! The layers are functions of one value. As services they would need a [`kube::Client`] each, and every [`kube::Client`] hands its requests to a
//! task of its own.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::client::Body;
use tower_service::Service;

use super::{
    client_metrics::{ClientMetrics, CountedBody, measured},
    declaration_check::DeclarationCheck,
    direct::{ReceivedBody, SendRequest},
    send_once::SendOnce,
};

/// Sends requests through the layers. Clones share the client underneath.
#[derive(Clone)]
pub(in crate::client) struct Layers {
    /// The client underneath.
    pub(super) sender: SendOnce,
    /// Service to call instead of the client underneath.
    pub(super) service: Option<Arc<SendRequest>>,
    /// Refuses or reports requests that the program does not declare.
    pub(super) check: Option<Arc<DeclarationCheck>>,
    pub(super) metrics: Arc<dyn ClientMetrics>,
    /// Name of the API server in metrics.
    pub(super) host: Arc<str>,
}

impl Layers {
    pub(in crate::client) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<CountedBody>, kube::Error> {
        // Metrics include requests that the check refuses.
        measured(request, &self.host, &self.metrics, async |request| {
            let refusal = self.check.as_ref().and_then(|check| check.refusal(&request, &*self.metrics));
            match (refusal, &self.service) {
                (Some(refusal), _) => Ok(refusal.map(ReceivedBody::Kube)),
                (None, Some(service)) => service(request).await,
                (None, None) => Ok(self.sender.send(request).await?.map(ReceivedBody::Kube)),
            }
        })
        .await
    }

    /// Returns a client that sends its requests through the layers.
    pub(super) fn to_kube(&self) -> kube::Client {
        kube::Client::new(self.clone(), self.sender.default_namespace())
    }
}

impl Service<Request<Body>> for Layers {
    type Response = Response<CountedBody>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(())) // `send` waits until the client underneath is ready
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let layers = self.clone();
        Box::pin(async move { layers.send(request).await })
    }
}
