//! Clients that act as another user.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use kube::client::Body;

/// Transport that adds impersonation headers to requests.
struct Impersonating {
    client: kube::Client,
    headers: HeaderMap,
}

/// Returns a client that sends its requests as another user, with the permissions of that user.
pub(crate) fn client_for(client: kube::Client, name: &str, groups: &[String]) -> kube::Client {
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .expect("names of users and groups contain no control characters")
    };
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("impersonate-user"), value(name));
    for group in groups {
        // One header for each group, which is why the headers are appended and not set.
        headers.append(HeaderName::from_static("impersonate-group"), value(group));
    }
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Impersonating { client, headers }, namespace)
}

impl tower_service::Service<Request<Body>> for Impersonating {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        let client = self.client.clone();
        Box::pin(async move { client.send(request).await })
    }
}
