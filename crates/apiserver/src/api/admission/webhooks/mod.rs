//! Plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: calls of the webhooks that MutatingWebhookConfigurations and
//! ValidatingWebhookConfigurations name.
//!
//! Rules, in the order in which they apply:
//!
//! - Configurations and policies of admission are never reviewed, so that a broken webhook can be removed.
//! - A webhook is called if one of its rules matches, or, with `matchPolicy: Equivalent`, matches the same resource in another
//!   version, in which it then gets the objects; and if its selectors and all of its match conditions hold.
//! - Mutating webhooks are called one after the other, by the name of their configuration and their place in it. If one changes the
//!   object, the plugins of the server run once more, and so do earlier webhooks with `reinvocationPolicy: IfNeeded`.
//! - Validating webhooks are called at the same time. Of several errors the first in that order is returned; kube-apiserver returns
//!   the one that comes first in time.
//! - A call that fails refuses the request with 500, unless the `failurePolicy` is `Ignore`. A denial always refuses it.
//!
//! A configuration takes effect with its commit. Audit annotations are accepted and dropped, because there is no audit log.

mod conditions;
mod configurations;
mod invocation;
mod matching;
mod mutating;
mod review;
mod validating;
mod versions;
mod webhook;

pub(crate) use self::configurations::Configurations;
pub(super) use self::mutating::{MutatingWebhooks, Round};
pub(super) use self::validating::ValidatingWebhooks;
