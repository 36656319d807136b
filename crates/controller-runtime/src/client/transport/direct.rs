//! Requests to a service without a `kube` client in between.
//!
//! A [`kube::Client`] hands each request to a task of its own, which calls the service underneath, and boxes the service and the body of the
//! response. A service that can be cloned needs no such task.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;
use tower_service::Service;

use crate::error::BoxError;

/// Sends a request to a service of any type.
pub(super) type SendRequest =
    dyn Fn(Request<Body>) -> BoxFuture<'static, Result<Response<ReceivedBody>, kube::Error>> + Send + Sync;

/// Body of a response.
pub(in crate::client) enum ReceivedBody {
    /// Received through a `kube` client.
    Kube(Body),
    /// Received from a service.
    Direct(UnsyncBoxBody<Bytes, kube::Error>),
}

/// Returns the function that sends requests to `service`. Errors are those of a [`kube::Client`] with this service.
pub(super) fn through<S, B>(service: S) -> Arc<SendRequest>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    Arc::new(move |request| {
        // One clone for each request, because `poll_ready` and `call` need exclusive access.
        let mut service = service.clone();
        Box::pin(async move {
            poll_fn(|context| service.poll_ready(context)).await.map_err(kube_error)?;
            let response = service.call(request).await.map_err(kube_error)?;
            Ok(response.map(|body| ReceivedBody::Direct(body.map_err(kube_error).boxed_unsync())))
        })
    })
}

fn kube_error(error: impl Into<BoxError>) -> kube::Error {
    match error.into().downcast::<kube::Error>() {
        Ok(error) => *error,
        Err(error) => kube::Error::Service(error),
    }
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        match self.get_mut() {
            Self::Kube(body) => Pin::new(body).poll_frame(context),
            Self::Direct(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Kube(body) => body.is_end_stream(),
            Self::Direct(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Kube(body) => body.size_hint(),
            Self::Direct(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use http_body_util::Full;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{
        ObjectKey,
        client::{Client, ErrorKind},
    };

    /// Answers each request with an object that is named by the request's path, or not at all.
    #[derive(Clone)]
    enum Paths {
        Reachable,
        Unreachable,
    }

    impl Service<Request<Body>> for Paths {
        type Response = Response<Full<Bytes>>;
        type Error = BoxError;
        type Future = Ready<Result<Self::Response, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let object = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, request.uri().path());
            ready(match self {
                Self::Reachable => Ok(Response::new(Full::from(object))),
                Self::Unreachable => Err("no route".into()),
            })
        }
    }

    fn client(below: Paths, service: Paths) -> Client {
        Client::builder(kube::Client::new(below, "default"), "test").service(service).build()
    }

    #[tokio::test]
    async fn requests_of_the_client_and_of_its_kube_client_reach_the_service() {
        let client = client(Paths::Unreachable, Paths::Reachable);
        let map = client.get(&ObjectKey::<ConfigMap>::new("a", "b")).await.unwrap().unwrap();
        let path = Some("/api/v1/namespaces/a/configmaps/b");
        assert_eq!(map.metadata.name.as_deref(), path);
        let map = kube::Api::<ConfigMap>::namespaced(client.kube().clone(), "a").get("b").await.unwrap();
        assert_eq!(map.metadata.name.as_deref(), path);
    }

    #[tokio::test]
    async fn an_error_of_the_service_is_a_missing_answer() {
        let client = client(Paths::Reachable, Paths::Unreachable);
        let error = client.get(&ObjectKey::<ConfigMap>::new("a", "b")).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoAnswer(reason) if reason == "no route"), "{error}");
    }
}
