//! Webhooks of one start of an operator: those that it serves, and whether they are installed.

use std::{
    future::pending,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{ServedWebhooks, WebhookError, WebhookHost};

/// Webhooks that a start of an operator serves, until it is stopped, crashed or dropped.
pub(super) struct InstanceWebhooks {
    host: Option<WebhookHost>,
    served: Mutex<WebhooksUntilEnd>,
    /// Number of calls of `serve_webhooks` that have succeeded, for [`InstanceWebhooks::failed`], which also observes later ones.
    begun: watch::Sender<usize>,
}

/// The served webhooks, and whether the start has ended.
#[derive(Default)]
struct WebhooksUntilEnd {
    all: Vec<ServedWebhooks>,
    has_ended: bool,
}

impl InstanceWebhooks {
    pub(super) fn new(host: Option<WebhookHost>) -> Self {
        Self { host, served: Mutex::default(), begun: watch::Sender::new(0) }
    }

    pub(super) fn host(&self) -> Option<&WebhookHost> {
        self.host.as_ref()
    }

    /// Keeps these webhooks answering until the start ends.
    pub(super) fn begin(&self, webhooks: ServedWebhooks) {
        let mut served = self.served();
        // A task of the operator that outlives its crash must not serve webhooks.
        if !served.has_ended {
            served.all.push(webhooks);
            self.begun.send_replace(served.all.len());
        }
    }

    /// Stops answering: calls in progress fail, too.
    pub(super) fn end(&self) {
        // Dropped without the lock, because the destructors of webhooks are code of the operator.
        let ended = {
            let mut served = self.served();
            served.has_ended = true;
            std::mem::take(&mut served.all)
        };
        drop(ended);
    }

    /// Completes when all webhooks that the start serves so far are installed.
    pub(super) async fn installed(&self) {
        let mut number = 0;
        while let Some(outcome) = self.outcome(number) {
            // `failed` returns the error, so this future stays pending.
            if outcome.await.is_err() {
                pending::<()>().await;
            }
            number += 1;
        }
    }

    /// Completes with the first failure.
    pub(super) fn failed(&self) -> impl Future<Output = WebhookError> + Send + use<'_> {
        let mut begun = self.begun.subscribe();
        async move {
            // The operator may serve several sets of webhooks, one after the other. Any of them may fail.
            for number in 0.. {
                if begun.wait_for(|begun| *begun > number).await.is_err() {
                    break;
                }
                if let Some(outcome) = self.outcome(number)
                    && let Err(error) = outcome.await
                {
                    return error;
                }
            }
            pending().await
        }
    }

    /// Waits for the installation of the webhooks of this number, counted from 0. `None` if there are none yet, or the start has ended.
    fn outcome(
        &self,
        number: usize,
    ) -> Option<impl Future<Output = Result<(), WebhookError>> + Send + use<>> {
        self.served().all.get(number).map(ServedWebhooks::outcome)
    }

    fn served(&self) -> MutexGuard<'_, WebhooksUntilEnd> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
