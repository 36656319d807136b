//! Plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: calls of the webhooks in MutatingWebhookConfigurations and
//! ValidatingWebhookConfigurations.
//!
//! Rules, in the order in which they apply:
//!
//! - Webhook configurations and admission policies are never reviewed, so that a broken webhook can be removed.
//! - A webhook is called if one of its rules matches the request, and its selectors and all of its match conditions hold. With
//!   `matchPolicy: Equivalent`, a rule also matches requests for the same resource in another version; the webhook then receives the
//!   objects in the version of its rule.
//! - Mutating webhooks are called one after the other, ordered by the name of their configuration and their position in it. If one changes
//!   the object, the plugins of the server run once more, and so do earlier webhooks with `reinvocationPolicy: IfNeeded`.
//! - Validating webhooks are called at the same time. Of several errors, the first in that order is returned. (kube-apiserver returns the
//!   error that arrives first.)
//! - A call that fails refuses the request with 500, unless the `failurePolicy` is `Ignore`. A denial always refuses it.
//!
//! A configuration takes effect with its commit. Audit annotations of responses are checked and then dropped.

mod admission_review;
mod configurations;
mod invocation;
mod mutating;
mod validating;
mod webhook;

pub(crate) use self::configurations::Configurations;
pub(super) use self::mutating::{MutatingWebhooks, Round};
pub(super) use self::validating::ValidatingWebhooks;
use super::Attributes;

/// Kinds that configure admission. Webhooks never review them.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Whether the object under review configures admission.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    attributes.kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&attributes.kind.kind)
}
