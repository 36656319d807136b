//! Plugin `ValidatingAdmissionWebhook`.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use kube_apimachinery::status::ApiError;
use serde_json::Value;
use tokio::time::Instant;

use super::admission_review::WebhookKind;
use super::configurations::Configurations;
use super::invocation::{CallOutcome, Invocation, consequence, measure};
use super::is_exempt;
use super::webhook::Webhook;
use crate::api::admission::Attributes;
use crate::api::admission::matching::ReceivedAs;
use crate::api::admission::versions::{ConvertedObjects, Equivalents};

/// Maximum number of webhooks that are called at the same time for a request.
const MAX_PARALLEL_CALLS: usize = 64;

/// Calls validating webhooks.
pub(in crate::api::admission) struct ValidatingWebhooks {
    configurations: Arc<Configurations>,
    equivalents: Equivalents,
}

impl Default for ValidatingWebhooks {
    fn default() -> Self {
        Self { configurations: Arc::new(Configurations::validating()), equivalents: Equivalents::default() }
    }
}

impl ValidatingWebhooks {
    pub(in crate::api::admission) fn configurations(&self) -> Arc<Configurations> {
        Arc::clone(&self.configurations)
    }

    /// Whether webhooks exist that may have to review a request.
    pub(in crate::api::admission) fn may_review(&self, attributes: &Attributes<'_>) -> bool {
        self.configurations.has_webhooks() && !is_exempt(attributes)
    }

    /// Calls the webhooks, up to [`MAX_PARALLEL_CALLS`] at the same time.
    ///
    /// # Errors
    /// The error of the first webhook that refuses, in the order of the configurations.
    pub(in crate::api::admission) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        let webhooks = self.configurations.webhooks();
        // All webhooks are matched before the first call, so that an error of a selector comes without side
        // effects.
        let mut invoked = Vec::new();
        for webhook in webhooks.iter() {
            if let Some(form) = webhook.criteria.matches(attributes, object, &self.equivalents)? {
                invoked.push((webhook, form));
            }
        }
        // Objects are converted once for each version other than that of the request.
        let mut versions: Vec<ConvertedObjects> = Vec::new();
        for (_, form) in &invoked {
            if let ReceivedAs::Equivalent(served) = form
                && !versions.iter().any(|version| Arc::ptr_eq(&version.served, served))
            {
                let wrapped = |error: ApiError| ApiError::internal_error(error.message());
                versions.push(ConvertedObjects::of(attributes, served, object).await.map_err(wrapped)?);
            }
        }
        let mut invocations = Vec::new();
        for (webhook, form) in &invoked {
            let version = match form {
                ReceivedAs::Requested => None,
                ReceivedAs::Equivalent(served) => {
                    versions.iter().find(|version| Arc::ptr_eq(&version.served, served))
                }
            };
            let invocation = match version {
                Some(ConvertedObjects { served, object, old }) => {
                    Invocation { attributes, served, object: object.as_ref(), old: old.as_ref() }
                }
                None => Invocation { attributes, served: attributes.served, object, old: attributes.old },
            };
            if invocation.matches_conditions(webhook)? {
                invocations.push((*webhook, invocation));
            }
        }
        let calls = invocations.iter().map(|(webhook, invocation)| call(webhook, invocation));
        let calls: Vec<_> = calls.collect();
        // All outcomes are awaited, so that their warnings reach the client.
        let outcomes: Vec<_> = stream::iter(calls).buffered(MAX_PARALLEL_CALLS).collect().await;
        let mut refused = None;
        for (webhook, outcome) in outcomes {
            outcome.warnings.into_iter().for_each(|warning| attributes.warn(warning));
            if let Err(failure) = outcome.result
                && let Some(error) = consequence(webhook, failure)
            {
                // The first in order and not in time, so that equal requests get equal errors.
                refused.get_or_insert(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

/// Calls a webhook. Returns the webhook with the outcome.
fn call<'a>(
    webhook: &'a Webhook,
    invocation: &'a Invocation<'a>,
) -> BoxFuture<'a, (&'a Webhook, CallOutcome)> {
    let call = async move {
        let since = Instant::now();
        let outcome = invocation.call(webhook, WebhookKind::Validating).await;
        measure(webhook, invocation.attributes, WebhookKind::Validating, since, &outcome.result);
        (webhook, outcome)
    };
    call.boxed()
}
