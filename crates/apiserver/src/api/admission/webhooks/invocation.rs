//! The call of one webhook for one request.

use bytes::Bytes;
use kube_apimachinery::go::{self, quote};
use kube_apimachinery::status::ApiError;
use serde_json::Value;
use tokio::time::Instant;

use super::admission_review::{self, AdmissionResponse, WebhookKind};
use super::webhook::Webhook;
use crate::api::admission::Attributes;
use crate::api::admission::expression_input::ExpressionInput;
use crate::api::admission::matching::operation_name;
use crate::kind::registry::ServedKind;
use crate::metrics::{WebhookLabels, WebhookOutcome};
use crate::webhook_client::TimeoutQuery;

/// A request in the form in which a webhook receives it.
pub(super) struct Invocation<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    /// Resource as which the webhook receives the request.
    pub(super) served: &'a ServedKind,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
}

/// Reason why a webhook does not allow a request.
#[derive(Debug)]
pub(super) enum WebhookFailure {
    /// The call failed; the failure policy decides.
    Call(String),
    /// The webhook denies the request.
    Denied(ApiError),
    /// The request is refused with this error, regardless of the failure policy.
    Refused(ApiError),
}

/// Result of a call, and warnings, which the client receives in each case.
pub(super) struct CallOutcome {
    pub(super) warnings: Vec<String>,
    pub(super) result: Result<AdmissionResponse, WebhookFailure>,
}

impl Invocation<'_> {
    /// Whether the match conditions of a webhook hold.
    ///
    /// # Errors
    /// 403 if one of them cannot be evaluated, unless the failure policy is `Ignore`; then the webhook is not called.
    pub(super) fn matches_conditions(&self, webhook: &Webhook) -> Result<bool, ApiError> {
        if webhook.conditions.is_empty() {
            return Ok(true);
        }
        let attributes = self.attributes;
        // Conditions see the resource of the request, and the objects in the version of the webhook.
        let input = ExpressionInput::new(attributes, self.served, attributes.served, self.object, self.old);
        webhook.conditions.hold(&input, None).map_err(|why| {
            let resource = &attributes.served.resource;
            let name = input.request["name"].as_str().unwrap_or_default();
            ApiError::forbidden(&resource.group, &resource.plural, name, &why)
        })
    }

    /// Calls a webhook. Dropping the future ends the call.
    pub(super) async fn call(&self, webhook: &Webhook, kind: WebhookKind) -> CallOutcome {
        match self.answer(webhook, kind).await {
            Ok(mut response) => {
                let warnings = std::mem::take(&mut response.warnings);
                let result = if response.allowed {
                    Ok(response)
                } else {
                    Err(WebhookFailure::Denied(admission_review::denial(webhook, &response.status)))
                };
                CallOutcome { warnings, result }
            }
            Err(failure) => CallOutcome { warnings: Vec::new(), result: Err(failure) },
        }
    }

    async fn answer(
        &self,
        webhook: &Webhook,
        kind: WebhookKind,
    ) -> Result<AdmissionResponse, WebhookFailure> {
        let attributes = self.attributes;
        // The failure policy does not apply: without the webhook the dry run would differ from the real
        // write.
        if attributes.dry_run && !webhook.supports_dry_run {
            let why = format!("admission webhook {} does not support dry run", quote(&webhook.name));
            return Err(WebhookFailure::Refused(ApiError::bad_request(why)));
        }
        let version = webhook.review_version.ok_or_else(|| {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            WebhookFailure::Call(format!("could not create admission objects: {why}"))
        })?;
        // From the generator of audit ids, so that calls of webhooks do not affect the UIDs of objects.
        let uid = attributes.cluster.audit_id();
        let review = admission_review::request(attributes, self.served, version, &uid, self.object, self.old);
        let body = Bytes::from(go::json(&review));
        let called =
            attributes.cluster.call_webhook(&webhook.client, body, webhook.timeout, TimeoutQuery::Sent);
        let body = called.await.map_err(|error| WebhookFailure::Call(error.with_step()))?;
        admission_review::response(&body, version, kind, &uid).map_err(WebhookFailure::Call)
    }
}

/// Counts a call in the metrics of the server.
pub(super) fn measure<T>(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    kind: WebhookKind,
    since: Instant,
    result: &Result<T, WebhookFailure>,
) {
    let outcome = match result {
        Ok(_) => WebhookOutcome::Allowed,
        Err(WebhookFailure::Denied(error)) => WebhookOutcome::Denied(error.code()),
        Err(WebhookFailure::Refused(_)) => WebhookOutcome::Internal,
        Err(WebhookFailure::Call(_)) if webhook.ignores_failure => WebhookOutcome::FailedOpen(500),
        Err(WebhookFailure::Call(_)) => WebhookOutcome::Failed(500),
    };
    let kind = match kind {
        WebhookKind::Mutating => "admit",
        WebhookKind::Validating => "validating",
    };
    let labels = WebhookLabels { name: &webhook.name, kind, operation: operation_name(attributes.operation) };
    attributes.cluster.metrics.webhooks.observe(labels, outcome, since.elapsed());
}

/// Returns the error for a request that a webhook does not allow; `None` if the failure policy ignores the failure.
pub(super) fn consequence(webhook: &Webhook, failure: WebhookFailure) -> Option<ApiError> {
    let why = match failure {
        WebhookFailure::Denied(error) | WebhookFailure::Refused(error) => return Some(error),
        WebhookFailure::Call(why) => format!("failed calling webhook {}: {why}", quote(&webhook.name)),
    };
    if webhook.ignores_failure {
        tracing::warn!(
            webhook = webhook.name,
            error = why,
            "an admission webhook failed; its failurePolicy is Ignore, so the request continues"
        );
        return None;
    }
    tracing::warn!(
        webhook = webhook.name,
        error = why,
        "an admission webhook failed; its failurePolicy is Fail, so the request is refused"
    );
    Some(ApiError::internal_error(&why))
}
