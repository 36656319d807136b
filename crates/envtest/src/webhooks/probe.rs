//! Waits until the webhooks of an operator answer.

use std::{collections::BTreeSet, error::Error};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use kube::client::Body;
use tokio::time::{Duration, Instant, sleep, timeout_at};

use super::{WebhookAddress, WebhookError, WebhookHost, webhook_manifests::Reference};

/// Interval between two attempts.
const INTERVAL: Duration = Duration::from_millis(10);

/// Reason why a webhook does not answer yet.
enum Missing {
    NotServed,
    NoAnswer(String),
}

impl WebhookHost {
    /// Waits until all webhooks answer a GET with a status other than 404. A GET calls no handler.
    pub(super) async fn until_answering(&self, references: &[Reference]) -> Result<(), WebhookError> {
        let within = self.inner.within;
        let deadline = Instant::now() + within;
        let client = match &self.inner.place {
            WebhookAddress::InProcess(_) => None,
            WebhookAddress::Socket(socket) => Some(
                socket
                    .client()
                    .map_err(|reason| WebhookError::Socket { what: "a TLS client".to_owned(), reason })?,
            ),
        };
        let mut probed = BTreeSet::new();
        for reference in references {
            let url = self.url_of(reference);
            // Several webhooks may share a path.
            if !probed.insert(url.clone()) {
                continue;
            }
            let mut missing = Missing::NoAnswer("no response".to_owned());
            let answered = timeout_at(deadline, async {
                while let Err(error) = self.probe(&url, client.as_ref()).await {
                    missing = error;
                    sleep(INTERVAL).await;
                }
            });
            if answered.await.is_ok() {
                continue;
            }
            let (object, path) = (reference.title.clone(), reference.path.clone());
            return Err(match missing {
                Missing::NotServed => WebhookError::NotServed { object, path, within },
                Missing::NoAnswer(reason) => {
                    let reason = format!("{reason}; {}", self.hint());
                    WebhookError::NoAnswer { object, url, within, reason }
                }
            });
        }
        Ok(())
    }

    /// URL that the API server calls.
    fn url_of(&self, reference: &Reference) -> String {
        let Reference { service, port, path, .. } = reference;
        match &self.inner.place {
            WebhookAddress::InProcess(_) => {
                format!("https://{}.{}.svc:{port}{path}", service.name, service.namespace)
            }
            WebhookAddress::Socket(socket) => format!("{}{path}", socket.base_url()),
        }
    }

    /// Sends one GET. `client` is that of the socket; `None` in process.
    async fn probe(&self, url: &str, client: Option<&kube::Client>) -> Result<(), Missing> {
        let no_answer = |error: &dyn Error| Missing::NoAnswer(with_causes(error));
        let request = Request::builder().method(Method::GET).uri(url);
        let status = match (&self.inner.place, client) {
            (WebhookAddress::InProcess(router), _) => {
                let request = request.body(Bytes::new()).map_err(|error| no_answer(&error))?;
                let Some(answer) = router.send(&request) else {
                    return Err(Missing::NoAnswer("the operator does not run".to_owned()));
                };
                answer.await.map_err(Missing::NoAnswer)?.status()
            }
            (WebhookAddress::Socket(_), Some(client)) => {
                let request = request.body(Body::empty()).map_err(|error| no_answer(&error))?;
                client.send(request).await.map_err(|error| no_answer(&error))?.status()
            }
            (WebhookAddress::Socket(_), None) => {
                return Err(Missing::NoAnswer("there is no client".to_owned()));
            }
        };
        // Any other status, such as 400 or 405 for a GET without a review, comes from a handler at this path.
        if status == StatusCode::NOT_FOUND { Err(Missing::NotServed) } else { Ok(()) }
    }

    fn hint(&self) -> &'static str {
        match &self.inner.place {
            WebhookAddress::InProcess(_) => "does the operator call `Instance::serve_webhooks`?",
            WebhookAddress::Socket(_) => {
                "does the webhook server listen there, with the certificate of the environment? With controller-runtime: \
                 `WebhookOptions::local(instance.webhook_socket())`"
            }
        }
    }
}

/// Formats an error with its causes, without those whose text it contains already.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some errors print their cause themselves.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
