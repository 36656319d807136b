//! Calls in process. Calls over sockets are tested in `tests/it/webhooks`.

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Response;

use super::client_config::WebhookAddress;
use super::*;

/// Answers each call with the URL, after a delay.
#[derive(Debug)]
struct Echo(Duration);

impl WebhookTransport for Echo {
    fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>> {
        let (url, delay) = (request.uri().to_string(), self.0);
        let answer = async move {
            tokio::time::sleep(delay).await;
            Ok(Response::new(url.into()))
        };
        Some(answer.boxed())
    }
}

async fn call(delay: Duration, timeout: Duration, query: TimeoutQuery) -> Result<Bytes, String> {
    let config = ClientConfig::new(WebhookAddress::Url("https://hooks.example.com/x".to_owned()), Vec::new());
    let client = WebhookClient::new(Some(Arc::new(Echo(delay))));
    let called = client.post(&config, None, Bytes::from_static(b"{}"), timeout, query).await;
    called.map_err(|error| error.with_step())
}

#[tokio::test(start_paused = true)]
async fn the_url_has_the_timeout_in_whole_seconds() {
    let second = Duration::from_secs(1);
    let url = |query: &str| Ok(Bytes::from(format!("https://hooks.example.com/x{query}")));
    assert_eq!(call(second, 5 * second, TimeoutQuery::Sent).await, url("?timeout=5s"));
    assert_eq!(call(second, second * 3 / 2, TimeoutQuery::Sent).await, url("?timeout=2s"));
    assert_eq!(call(second, 5 * second, TimeoutQuery::Omitted).await, url(""));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_timeout() {
    let start = tokio::time::Instant::now();
    let second = Duration::from_secs(1);
    let error = call(30 * second, 10 * second, TimeoutQuery::Sent).await.unwrap_err();
    assert_eq!(
        error,
        "failed to call webhook: Post \"https://hooks.example.com/x?timeout=10s\": context deadline exceeded"
    );
    assert_eq!(start.elapsed(), 10 * second);
}
