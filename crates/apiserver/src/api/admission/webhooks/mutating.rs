//! Plugin `MutatingAdmissionWebhook`.

use std::sync::Arc;

use kube_apimachinery::go::quote;
use kube_apimachinery::patch::{self, AdmissionPatchError};
use kube_apimachinery::status::ApiError;
use serde_json::Value;
use tokio::time::Instant;

use super::admission_review::{AdmissionResponse, JSON_PATCH, WebhookKind};
use super::configurations::{Configurations, Webhooks};
use super::invocation::{Invocation, WebhookFailure, consequence, measure};
use super::is_exempt;
use super::webhook::Webhook;
use crate::api::admission::changed_object::{ChangedBy, decoded, with_type};
use crate::api::admission::matching::ReceivedAs;
use crate::api::admission::versions::{Equivalents, convert};
use crate::api::admission::{Attributes, restore_managed_fields};

/// Calls mutating webhooks, in one or two rounds.
pub(in crate::api::admission) struct MutatingWebhooks {
    configurations: Arc<Configurations>,
    equivalents: Equivalents,
}

/// State of a request between the two rounds.
pub(in crate::api::admission) struct Round {
    webhooks: Webhooks,
    /// Whether a webhook changed the object, so that a second round follows.
    changed: bool,
    /// Whether the object was decoded again after a patch, even if the patch changed nothing.
    decoded: bool,
    /// Whether a second round follows in any case.
    second_follows: bool,
    /// Indexes of called webhooks with `reinvocationPolicy: IfNeeded`, which are called again if the object changes.
    called: Vec<usize>,
    /// Indexes of the webhooks that are called in the second round.
    again: Vec<usize>,
    /// The object after the first round.
    output: Value,
}

impl Round {
    /// Whether a webhook changed the object, so that the plugins of the server and a second round must follow.
    pub(in crate::api::admission) fn changed(&self) -> bool {
        self.changed
    }

    /// Whether the object was decoded again after the patch of a webhook.
    pub(in crate::api::admission) fn decoded(&self) -> bool {
        self.decoded
    }

    /// Schedules the webhooks that were called before a change for the second round.
    fn record_change(&mut self) {
        self.changed = true;
        self.again.append(&mut self.called);
    }
}

impl Default for MutatingWebhooks {
    fn default() -> Self {
        Self { configurations: Arc::new(Configurations::mutating()), equivalents: Equivalents::default() }
    }
}

impl MutatingWebhooks {
    pub(in crate::api::admission) fn configurations(&self) -> Arc<Configurations> {
        Arc::clone(&self.configurations)
    }

    /// Whether webhooks exist that may have to review a request.
    pub(in crate::api::admission) fn may_review(&self, attributes: &Attributes<'_>) -> bool {
        self.configurations.has_webhooks() && !is_exempt(attributes)
    }

    /// Calls the webhooks in a first round. `second_follows` is whether a second round will follow even if no webhook changes the object.
    ///
    /// # Errors
    /// The error of the first webhook that refuses.
    pub(in crate::api::admission) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        second_follows: bool,
    ) -> Result<Round, ApiError> {
        let webhooks = self.configurations.webhooks();
        let mut round = Round {
            webhooks,
            changed: false,
            decoded: false,
            second_follows,
            called: Vec::new(),
            again: Vec::new(),
            output: Value::Null,
        };
        self.run(attributes, object, &mut round, None).await?;
        Ok(round)
    }

    /// Calls webhooks in a second round, because the object changed after their call.
    ///
    /// # Errors
    /// The error of the first webhook that refuses.
    pub(in crate::api::admission) async fn reinvoke(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        mut round: Round,
    ) -> Result<(), ApiError> {
        if object.as_deref().is_some_and(|object| *object != round.output) {
            round.record_change();
        }
        let again = std::mem::take(&mut round.again);
        self.run(attributes, object, &mut round, Some(&again)).await
    }

    /// Calls all webhooks, or only those with the indexes in `only`.
    async fn run(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        round: &mut Round,
        only: Option<&[usize]>,
    ) -> Result<(), ApiError> {
        let webhooks = Arc::clone(&round.webhooks);
        // Needed if a webhook makes the entries undecodable.
        let owners = object.as_deref().map(|object| object["metadata"]["managedFields"].clone());
        let mut review = ReviewedState::new(attributes, object);
        for (place, webhook) in webhooks.iter().enumerate() {
            let Some(form) = webhook.criteria.matches(attributes, review.object(), &self.equivalents)? else {
                continue;
            };
            // As in kube-apiserver, the second round also matches the webhooks that it does not call: a condition that cannot be
            // evaluated any more refuses the request.
            if !review.matches_conditions(webhook, &form).await? {
                continue;
            }
            if only.is_some_and(|only| !only.contains(&place)) {
                continue;
            }
            match review.call(webhook, &form).await? {
                WebhookReply::Unchanged => {}
                WebhookReply::Changed => round.record_change(),
            }
            // After `record_change`: its own change is no reason to call a webhook again.
            if webhook.reinvoked_if_needed {
                round.called.push(place);
            }
        }
        let Reviewed { mut object, changed, decoded } = review.finish().await?;
        round.decoded |= decoded;
        if changed
            && let (Some(owners), Some(object)) = (owners, object.as_deref_mut())
            && let Some(warning) = restore_managed_fields(&owners, object)
        {
            attributes.warn(warning);
        }
        if (round.changed || round.second_follows) && only.is_none() {
            // The second round compares the object with it, to find changes by the plugins of the server.
            round.output = object.map_or(Value::Null, |object| object.clone());
        }
        Ok(())
    }
}

/// The objects of a request while webhooks review them.
///
/// As in kube-apiserver, the objects stay in the version of the last webhook until a webhook needs another version. Only then, and at the
/// end, an object that a webhook has patched is converted back to the version of the request.
struct ReviewedState<'a> {
    attributes: &'a Attributes<'a>,
    /// The object in the version of the request.
    requested: Option<&'a mut Value>,
    /// The objects as the last webhook received or left them; `None` before the first one.
    last: Option<Versioned>,
    /// Whether a webhook changed the object.
    changed: bool,
    /// Whether the object was decoded again after a patch.
    decoded: bool,
}

/// The object of a request after the review.
struct Reviewed<'a> {
    /// The object in the version of the request.
    object: Option<&'a mut Value>,
    changed: bool,
    decoded: bool,
}

/// The objects of a request in one version.
struct Versioned {
    form: ReceivedAs,
    object: Option<Value>,
    /// The former object, if the version is not that of the request.
    old: Option<Value>,
    /// Whether a webhook has patched the object in this version.
    patched: bool,
}

impl<'a> ReviewedState<'a> {
    fn new(attributes: &'a Attributes<'a>, requested: Option<&'a mut Value>) -> Self {
        Self { attributes, requested, last: None, changed: false, decoded: false }
    }

    /// Returns the object in its current version.
    fn object(&self) -> Option<&Value> {
        match &self.last {
            Some(last) => last.object.as_ref(),
            None => self.requested.as_deref(),
        }
    }

    /// Whether the match conditions of a webhook hold, which see the objects in its version.
    async fn matches_conditions(&mut self, webhook: &Webhook, form: &ReceivedAs) -> Result<bool, ApiError> {
        if webhook.conditions.is_empty() {
            return Ok(true); // without a conversion, which may fail
        }
        self.prepare(form).await?;
        self.invocation(form).matches_conditions(webhook)
    }

    /// Converts the objects to the version of a webhook, unless they are in that version.
    async fn prepare(&mut self, form: &ReceivedAs) -> Result<(), ApiError> {
        if self.last.as_ref().is_some_and(|last| last.form.is(form)) {
            return Ok(());
        }
        // In kube-apiserver, the plugin and its caller both wrap the error.
        let wrapped =
            |error: ApiError| ApiError::internal_error(ApiError::internal_error(error.message()).message());
        self.convert_to(form).await.map_err(wrapped)
    }

    /// The request in the version of a webhook, for which the objects were [prepared](Self::prepare).
    fn invocation<'b>(&'b self, form: &'b ReceivedAs) -> Invocation<'b> {
        let attributes = self.attributes;
        let (served, old) = match form {
            ReceivedAs::Requested => (attributes.served, attributes.old),
            ReceivedAs::Equivalent(served) => {
                (&**served, self.last.as_ref().and_then(|last| last.old.as_ref()))
            }
        };
        Invocation { attributes, served, object: self.object(), old }
    }

    /// Calls a webhook.
    async fn call(&mut self, webhook: &Webhook, form: &ReceivedAs) -> Result<WebhookReply, ApiError> {
        let attributes = self.attributes;
        self.prepare(form).await?;
        let invocation = self.invocation(form);
        let since = Instant::now();
        let outcome = invocation.call(webhook, WebhookKind::Mutating).await;
        outcome.warnings.into_iter().for_each(|warning| attributes.warn(warning));
        let patched = match outcome.result {
            Ok(response) => patched(webhook, &invocation, &response),
            Err(failure) => Err(failure),
        };
        measure(webhook, attributes, WebhookKind::Mutating, since, &patched);
        let new = match patched {
            Ok(Some(new)) => decoded(attributes, invocation.served, new, ChangedBy::Webhook)?,
            Ok(None) => return Ok(WebhookReply::Unchanged),
            Err(failure) => {
                return consequence(webhook, failure).map_or(Ok(WebhookReply::Unchanged), Err);
            }
        };
        let Some(last) = &mut self.last else { return Ok(WebhookReply::Unchanged) };
        last.patched = true;
        if last.object.as_ref() == Some(&new) {
            return Ok(WebhookReply::Unchanged);
        }
        last.object = Some(new);
        self.changed = true;
        Ok(WebhookReply::Changed)
    }

    /// Converts the objects to the version of a webhook.
    async fn convert_to(&mut self, form: &ReceivedAs) -> Result<(), ApiError> {
        let attributes = self.attributes;
        self.restore().await?;
        let (object, old) = match form {
            ReceivedAs::Requested => (self.requested.as_deref().cloned(), None),
            ReceivedAs::Equivalent(served) => {
                let old = convert(attributes, attributes.served, served, attributes.old).await?;
                (convert(attributes, attributes.served, served, self.requested.as_deref()).await?, old)
            }
        };
        let object = match object {
            Some(object) if matches!(form, ReceivedAs::Requested) => {
                Some(with_type(attributes, &object)?.unwrap_or(object))
            }
            object => object,
        };
        self.last = Some(Versioned { form: form.clone(), object, old, patched: false });
        Ok(())
    }

    /// Converts the object back to the version of the request, if a webhook has patched it.
    async fn restore(&mut self) -> Result<(), ApiError> {
        let attributes = self.attributes;
        let Some(Versioned { form, object: Some(object), patched: true, .. }) = self.last.take() else {
            return Ok(());
        };
        let mut object = match form {
            ReceivedAs::Equivalent(served) if attributes.is_of_resource() => {
                let converted = convert(attributes, &served, attributes.served, Some(&object)).await?;
                converted.unwrap_or(object)
            }
            ReceivedAs::Equivalent(_) | ReceivedAs::Requested => object,
        };
        if !(attributes.served.is_custom() && attributes.is_of_resource()) {
            attributes.conform(&mut object)?;
        }
        if let Some(requested) = self.requested.as_deref_mut() {
            *requested = object;
        }
        self.decoded = true;
        Ok(())
    }

    /// Returns the object in the version of the request.
    async fn finish(mut self) -> Result<Reviewed<'a>, ApiError> {
        self.restore().await?;
        Ok(Reviewed { object: self.requested, changed: self.changed, decoded: self.decoded })
    }
}

/// Result of a webhook that allows a request.
enum WebhookReply {
    Unchanged,
    /// The webhook has patched the object, which differs now.
    Changed,
}

/// Applies the patch of a response.
fn patched(
    webhook: &Webhook,
    invocation: &Invocation<'_>,
    response: &AdmissionResponse,
) -> Result<Option<Value>, WebhookFailure> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let internal = |why: String| WebhookFailure::Refused(ApiError::internal_error(&why));
    let target = invocation.object.unwrap_or(&Value::Null);
    // As in kube-apiserver, the patch is decoded first, then the object must exist, and only then the type of
    // the patch is checked.
    let new = match patch::admission(target, &response.patch) {
        Ok(None) => return Ok(None),
        Err(AdmissionPatchError::Undecodable(why)) => {
            return Err(WebhookFailure::Call(format!(
                "received undecodable patch in webhook response: {why}"
            )));
        }
        Ok(Some(_)) | Err(_) if invocation.object.is_none() => {
            return Err(internal(format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                quote(&webhook.name)
            )));
        }
        _ if response.patch_type != JSON_PATCH => {
            return Err(WebhookFailure::Call(format!(
                "unsupported patch type {}",
                quote(&response.patch_type)
            )));
        }
        Ok(Some(new)) => new,
        Err(AdmissionPatchError::Inapplicable(why)) => return Err(internal(why)),
    };
    Ok(Some(new))
}
