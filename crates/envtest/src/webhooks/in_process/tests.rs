//! Routing of webhook calls to operators in the process.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
};

use super::*;

/// Webhooks that answer with their name, or never if the name is empty.
#[derive(Clone)]
struct Named(&'static str);

impl Service<Request<Bytes>> for Named {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        match self.0 {
            "" => Box::pin(std::future::pending()),
            name => Box::pin(ready(Ok(Response::new(Bytes::from(name))))),
        }
    }
}

fn service(name: &str) -> ServiceName {
    ServiceName { namespace: "system".to_owned(), name: name.to_owned() }
}

fn request(host: &str) -> Request<Bytes> {
    Request::post(format!("https://{host}:443/validate")).body(Bytes::new()).unwrap()
}

/// Calls a webhook, and returns the body or the error; `None` if the router leaves the call to a socket.
async fn call(router: &Router, host: &str) -> Option<String> {
    let answer = router.call(&request(host))?.await;
    Some(match answer {
        Ok(response) => String::from_utf8(response.body().to_vec()).unwrap(),
        Err(why) => why,
    })
}

#[tokio::test]
async fn calls_reach_the_newest_start_of_the_operator_that_serves_the_service() {
    let router = Router::new(None);
    let register = |name, services: &[&str]| {
        router.register(services.iter().map(|name| service(name)).collect(), Named(name))
    };
    assert_eq!(call(&router, "a.system.svc").await, None);
    let first = register("first", &["a"]);
    let other = register("other", &["b"]);
    assert_eq!(call(&router, "a.system.svc").await.unwrap(), "first");
    assert_eq!(call(&router, "b.system.svc").await.unwrap(), "other");
    for host in ["c.system.svc", "a.elsewhere.svc", "a.system.svc.cluster.local", "127.0.0.1"] {
        assert_eq!(call(&router, host).await, None, "{host}");
    }
    let second = register("second", &["a"]);
    assert_eq!(call(&router, "a.system.svc").await.unwrap(), "second");
    drop(first);
    assert_eq!(call(&router, "a.system.svc").await.unwrap(), "second");
    drop((second, other));
    let refused = call(&router, "a.system.svc").await.unwrap();
    assert_eq!(refused, "dial tcp system/a:443: connect: connection refused: the operator does not run");
}

#[tokio::test]
async fn a_crash_ends_answers_that_have_begun() {
    let router = Router::new(None);
    let running = router.register([service("a")].into(), Named(""));
    let answer = router.call(&request("a.system.svc")).unwrap();
    let crash = async { drop(running) };
    let (answer, ()) = tokio::join!(answer, crash);
    assert_eq!(answer.unwrap_err(), "EOF");
}

/// Refuses every call.
#[derive(Debug)]
struct Closed;

impl WebhookTransport for Closed {
    fn call(
        &self,
        _: &Request<Bytes>,
    ) -> Option<Pin<Box<dyn Future<Output = Result<Response<Bytes>, String>> + Send>>> {
        let closed: Ready<Result<Response<Bytes>, String>> = ready(Err("closed".to_owned()));
        Some(Box::pin(closed))
    }
}

#[tokio::test]
async fn calls_of_other_services_use_the_transport_of_the_test() {
    let router = Router::new(Some(Arc::new(Closed)));
    let _running = router.register([service("a")].into(), Named("first"));
    assert_eq!(call(&router, "a.system.svc").await.unwrap(), "first");
    assert_eq!(call(&router, "b.system.svc").await.unwrap(), "closed");
}
