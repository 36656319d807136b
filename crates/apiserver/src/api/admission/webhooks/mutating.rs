//! Plugin `MutatingAdmissionWebhook`.

use std::sync::Arc;

use kube_apimachinery::decode;
use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use kube_apimachinery::patch::{self, AdmissionPatchError};
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::admission_review::{AdmissionResponse, JSON_PATCH, WebhookKind};
use super::configurations::{Configurations, Webhooks};
use super::invocation::{Invocation, WebhookFailure, consequence, measure};
use super::matching::{ReceivedAs, is_exempt, matches};
use super::versions::{Equivalents, convert};
use super::webhook::Webhook;
use crate::api::admission::{Attributes, ObjectKind, restore_managed_fields};
use crate::kind::registry::ServedKind;

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
    /// Called webhooks with `reinvocationPolicy: IfNeeded`, by their place. They are called again if the object changes.
    called: Vec<usize>,
    /// Webhooks that are called in the second round.
    again: Vec<usize>,
    /// The object after the first round.
    output: Value,
}

impl Round {
    /// Whether a webhook changed the object, so that the plugins of the server and a second round must follow.
    pub(in crate::api::admission) fn changed(&self) -> bool {
        self.changed
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
    pub(in crate::api::admission) fn review(&self, attributes: &Attributes<'_>) -> bool {
        self.configurations.has_webhooks() && !is_exempt(attributes)
    }

    /// Calls the webhooks in a first round.
    ///
    /// # Errors
    /// The error of the first webhook that refuses.
    pub(in crate::api::admission) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
    ) -> Result<Round, ApiError> {
        let webhooks = self.configurations.webhooks();
        let mut round =
            Round { webhooks, changed: false, called: Vec::new(), again: Vec::new(), output: Value::Null };
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

    /// Calls all webhooks, or only those at the places in `only`.
    async fn run(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        round: &mut Round,
        only: Option<&[usize]>,
    ) -> Result<(), ApiError> {
        let webhooks = Arc::clone(&round.webhooks);
        let owners = object.as_deref().map(|object| object["metadata"]["managedFields"].clone());
        let mut review = ReviewedState::new(attributes, object);
        for (place, webhook) in webhooks.iter().enumerate() {
            if only.is_some_and(|only| !only.contains(&place)) {
                continue;
            }
            let Some(form) = matches(webhook, attributes, review.object(), &self.equivalents)? else {
                continue;
            };
            match review.call(webhook, &form).await? {
                WebhookReply::NotCalled => continue,
                WebhookReply::Unchanged => {}
                WebhookReply::Changed => round.record_change(),
            }
            if webhook.reinvoked_if_needed {
                round.called.push(place);
            }
        }
        let (mut object, changed) = review.finish().await?;
        if changed
            && let (Some(owners), Some(object)) = (owners, object.as_deref_mut())
            && let Some(warning) = restore_managed_fields(&owners, object)
        {
            attributes.warn(warning);
        }
        if round.changed && only.is_none() {
            // The second round compares the object with it, to find changes by the plugins of the server.
            round.output = object.map_or(Value::Null, |object| object.clone());
        }
        Ok(())
    }
}

/// The objects of a request while webhooks review them.
///
/// As in kube-apiserver, they stay in the version of the last webhook, and as a webhook left them, until a webhook needs another version.
/// Only then, and at the end, an object that a webhook has patched is converted back to the version of the request.
struct ReviewedState<'a> {
    attributes: &'a Attributes<'a>,
    /// The object in the version of the request.
    requested: Option<&'a mut Value>,
    /// The objects as the last webhook received or left them; `None` before the first one.
    last: Option<Versioned>,
    /// Whether a webhook changed the object.
    changed: bool,
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
        Self { attributes, requested, last: None, changed: false }
    }

    /// Returns the object in the version in which it is.
    fn object(&self) -> Option<&Value> {
        match &self.last {
            Some(last) => last.object.as_ref(),
            None => self.requested.as_deref(),
        }
    }

    /// Calls a webhook.
    async fn call(&mut self, webhook: &Webhook, form: &ReceivedAs) -> Result<WebhookReply, ApiError> {
        let attributes = self.attributes;
        if !self.last.as_ref().is_some_and(|last| last.form.is(form)) {
            // Plugin and caller both wrap the error.
            let wrapped = |error: ApiError| {
                ApiError::internal_error(ApiError::internal_error(error.message()).message())
            };
            self.convert_to(form).await.map_err(wrapped)?;
        }
        let Some(last) = &mut self.last else { return Ok(WebhookReply::NotCalled) };
        let (served, old) = match form {
            ReceivedAs::Requested => (attributes.served, attributes.old),
            ReceivedAs::Equivalent(served) => (&**served, last.old.as_ref()),
        };
        let invocation = Invocation { attributes, served, object: last.object.as_ref(), old };
        if !invocation.matches_conditions(webhook)? {
            return Ok(WebhookReply::NotCalled);
        }
        let since = Instant::now();
        let outcome = invocation.call(webhook, WebhookKind::Mutating).await;
        outcome.warnings.into_iter().for_each(|warning| attributes.warn(warning));
        let patched = match outcome.result {
            Ok(response) => patched(webhook, &invocation, &response),
            Err(failure) => Err(failure),
        };
        measure(webhook, attributes, WebhookKind::Mutating, since, &patched);
        let new = match patched {
            Ok(Some(new)) => decoded(attributes, served, new)?,
            Ok(None) => return Ok(WebhookReply::Unchanged),
            Err(failure) => {
                return consequence(webhook, failure).map_or(Ok(WebhookReply::Unchanged), Err);
            }
        };
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
        Ok(())
    }

    /// Returns the object in the version of the request, and whether a webhook has changed it.
    async fn finish(mut self) -> Result<(Option<&'a mut Value>, bool), ApiError> {
        self.restore().await?;
        Ok((self.requested, self.changed))
    }
}

/// Returns a copy of a custom object with the kind of its endpoint, if the object has another kind. Webhooks receive the copy. If one of them
/// patches it, the object has the right kind from then on; otherwise validation refuses the object for its kind.
///
/// # Errors
/// 500 if the object has another version.
fn with_type(attributes: &Attributes<'_>, object: &Value) -> Result<Option<Value>, ApiError> {
    let expected = &attributes.served.kind;
    if !attributes.served.is_custom() || !attributes.is_of_resource() || attributes.served.is_of_kind(object)
    {
        return Ok(None);
    }
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version != &*expected.api_version {
        let slash = if version.contains('/') { "" } else { "/" };
        let target = quote(&expected.api_version);
        return Err(ApiError::internal(format!(
            "{slash}{version}, Kind={kind} is unstructured and is not suitable for converting to {target}"
        )));
    }
    let mut typed = object.clone();
    typed["kind"] = json!(expected.kind);
    Ok(Some(typed))
}

/// Result of a webhook that allows a request.
enum WebhookReply {
    /// The match conditions of the webhook do not hold.
    NotCalled,
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

/// Decodes a patched object of `served`, and completes it. Custom objects keep unknown fields: another version may know them, and their
/// metadata are checked when they are stored.
///
/// # Errors
/// 500 if the object cannot be decoded, 422 if a custom object changed its type.
fn decoded(attributes: &Attributes<'_>, served: &ServedKind, mut object: Value) -> Result<Value, ApiError> {
    let kind = if attributes.is_of_resource() { ObjectKind::of(served) } else { attributes.kind };
    check_type(attributes, served, kind, &mut object)?;
    if !attributes.is_of_resource() {
        attributes.conform(&mut object)?;
        return Ok(object);
    }
    if served.is_custom() {
        decode::normalize_numbers(&mut object);
        served.schema.default_applied(&mut object);
        return Ok(object);
    }
    served.decode_errors(&mut object, &[]).map_err(|why| ApiError::internal_error(&why))?;
    // Annotations that stand for fields of Go's internal type are not set before the object is converted to it.
    let given = object["metadata"]["annotations"].clone();
    served.conform(&mut object);
    served.retain_version_annotations(&given, &mut object);
    Ok(object)
}

/// Checks that a patched object still has its kind. A missing type is restored.
fn check_type(
    attributes: &Attributes<'_>,
    served: &ServedKind,
    kind: ObjectKind<'_>,
    object: &mut Value,
) -> Result<(), ApiError> {
    let expected = kind.api_version();
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (found_version, found_kind) = (text("apiVersion"), text("kind"));
    if (&*found_version, &*found_kind) == (&*expected, kind.kind) {
        return Ok(());
    }
    let internal = |why: String| Err(ApiError::internal_error(&why));
    if served.is_custom() && attributes.is_of_resource() {
        if found_kind.is_empty() {
            return internal(format!("Object 'Kind' is missing in '{object}'"));
        }
        let wrong = [("kind", &found_kind, kind.kind), ("apiVersion", &found_version, &expected)];
        let wrong = wrong.into_iter().filter(|(_, found, expected)| found != expected);
        let errors = wrong.map(|(field, found, expected)| {
            FieldError::invalid(field, &quote(found), &format!("must be {expected}"))
        });
        let name = metadata::text(object, "name");
        return Err(ApiError::invalid(kind.group, kind.kind, name, errors.collect()));
    }
    let found_version = if found_version.is_empty() { expected.clone() } else { found_version };
    let found_kind = if found_kind.is_empty() { kind.kind.to_owned() } else { found_kind };
    if (&*found_version, &*found_kind) != (&*expected, kind.kind) {
        let (group, version) = found_version.split_once('/').unwrap_or(("", &found_version));
        let registry = attributes.cluster.registry();
        let Some(other) = registry.by_kind(group, version, &found_kind).filter(|other| !other.is_custom())
        else {
            return internal(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(&found_kind),
                quote(&found_version)
            ));
        };
        if let Err(why) = other.decode_errors(object, &[]) {
            return internal(why);
        }
        let package = kind.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        return Err(ApiError::internal(format!(
            "converting ({version}.{found_kind}) to ({package}.{}): unknown conversion",
            kind.kind
        )));
    }
    object["apiVersion"] = found_version.into();
    object["kind"] = found_kind.into();
    Ok(())
}
