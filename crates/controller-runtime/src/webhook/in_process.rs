//! Webhooks as a service, for API servers in the same process.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use tower_service::Service;

use super::Webhooks;
use crate::serving::HttpResponse;

/// Answers like [`Webhooks::answer`]. kube-envtest calls it for an API server in the same process.
impl Service<http::Request<Bytes>> for Webhooks {
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<HttpResponse, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        let webhooks = self.clone();
        async move { Ok(webhooks.answer(request).await) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, StatusCode};
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::{metrics::Metrics, webhook::Rule};

    #[tokio::test]
    async fn a_get_tells_whether_there_is_a_webhook_and_is_not_counted() {
        let metrics = Metrics::default();
        let mut webhooks = Webhooks::new(metrics.webhooks(), 1 << 20);
        webhooks.validating(Rule::of::<Pod>(), async |_| Ok(())).expect("it is the first");
        for (path, status) in [
            ("/validate--v1-pod", StatusCode::METHOD_NOT_ALLOWED),
            ("/mutate--v1-pod", StatusCode::NOT_FOUND),
            ("/convert", StatusCode::NOT_FOUND),
        ] {
            let request = Request::get(path).body(Bytes::new()).expect("a request");
            let Ok(response) = webhooks.call(request).await;
            assert_eq!(response.status(), status, "{path}");
        }
        assert!(!metrics.encode_prometheus().contains("code=\"405\""));
    }
}
