//! Calls of webhooks that the operator answers in the process.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{Request, Response};
use kube_apiserver_embedded::WebhookTransport;
use tokio::sync::watch;
use tower_service::Service;

use super::webhook_manifests::ServiceName;

type Answer = Pin<Box<dyn Future<Output = Response<Bytes>> + Send>>;
/// A response, or the reason why there is none.
type Exchange = Pin<Box<dyn Future<Output = Result<Response<Bytes>, String>> + Send>>;
type AnswerFn = dyn Fn(Request<Bytes>) -> Answer + Send + Sync;

/// Answers requests of the API server in the process. Implemented by every service, such as `manager.webhooks().clone()` of
/// controller-runtime.
pub trait AnswerWebhooks:
    Service<Request<Bytes>, Response = Response<Bytes>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> AnswerWebhooks for S where
    S: Service<Request<Bytes>, Response = Response<Bytes>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Routes calls of the API server to operators by the name of the Service.
#[derive(Clone)]
pub(crate) struct Router {
    state: Arc<Mutex<RouterState>>,
    /// Transport of the test, for Services that no operator of the environment serves.
    next: Option<Arc<dyn WebhookTransport>>,
}

#[derive(Default)]
struct RouterState {
    /// Services that an operator of the environment serves, or has served.
    services: BTreeSet<ServiceName>,
    /// Handlers in the order of registration. While an operator restarts, there may be two.
    handlers: Vec<Handler>,
    next: u64,
}

struct Handler {
    id: u64,
    services: BTreeSet<ServiceName>,
    answer: Arc<AnswerFn>,
    /// Dropped with the handler; then calls without an answer fail.
    running: watch::Sender<()>,
}

impl Router {
    pub(crate) fn new(next: Option<Arc<dyn WebhookTransport>>) -> Self {
        Self { state: Arc::default(), next }
    }

    fn state(&self) -> MutexGuard<'_, RouterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends calls of these Services to `webhooks`, until the registration is dropped.
    pub(super) fn register(
        &self,
        services: BTreeSet<ServiceName>,
        webhooks: impl AnswerWebhooks,
    ) -> Registration {
        let answer: Arc<AnswerFn> = Arc::new(move |request| {
            let mut webhooks = webhooks.clone();
            Box::pin(async move {
                let Ok(()) = poll_fn(|cx| webhooks.poll_ready(cx)).await;
                let Ok(response) = webhooks.call(request).await;
                response
            })
        });
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        // Services stay known after their handlers are gone, so that calls fail as for an operator that is
        // down.
        state.services.extend(services.iter().cloned());
        state.handlers.push(Handler { id, services, answer, running: watch::Sender::new(()) });
        Registration { router: self.clone(), id }
    }

    /// Lets calls of these Services fail while no operator runs, instead of looking for the Services in the cluster.
    pub(super) fn expect(&self, services: impl IntoIterator<Item = ServiceName>) {
        self.state().services.extend(services);
    }

    /// Answers a request, or fails with the reason why there is no answer. `None` if no operator of the environment serves the Service.
    pub(super) fn send(&self, request: &Request<Bytes>) -> Option<Exchange> {
        let service = service_of(request)?;
        let state = self.state();
        if !state.services.contains(&service) {
            return None;
        }
        // The handler that was registered last: that of the operator's newest start.
        let handler = state.handlers.iter().rev().find(|handler| handler.services.contains(&service));
        let Some(handler) = handler else {
            let port = request.uri().port_u16().unwrap_or(443);
            let refused =
                format!("dial tcp {service}:{port}: connect: connection refused: the operator does not run");
            return Some(Box::pin(async { Err(refused) }));
        };
        let (answer, mut running) = (Arc::clone(&handler.answer), handler.running.subscribe());
        let request = request.clone();
        Some(Box::pin(async move {
            // Nothing is ever sent: the error shows that the handler, and with it the sender, is gone.
            let ended = async { while running.changed().await.is_ok() {} };
            tokio::select! {
                // A crash comes first, so that no request is answered after it.
                biased;
                () = ended => Err("EOF".to_owned()),
                response = answer(request) => Ok(response),
            }
        }))
    }
}

impl WebhookTransport for Router {
    fn call(&self, request: &Request<Bytes>) -> Option<Exchange> {
        match self.send(request) {
            None => self.next.as_ref().and_then(|next| next.call(request)),
            answer => answer,
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("services", &self.state().services).finish_non_exhaustive()
    }
}

/// A registered operator. Dropping it fails all calls, including those in progress.
pub(super) struct Registration {
    router: Router,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let handler = {
            let mut state = self.router.state();
            let index = state.handlers.iter().position(|handler| handler.id == self.id);
            index.map(|index| state.handlers.remove(index))
        };
        // The handler is code of the operator, so it is dropped after the lock is released.
        drop(handler);
    }
}

/// Returns the Service of a URL such as `https://webhooks.system.svc:443/convert`.
fn service_of(request: &Request<Bytes>) -> Option<ServiceName> {
    let (name, namespace) = request.uri().host()?.strip_suffix(".svc")?.split_once('.')?;
    Some(ServiceName { namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests;
