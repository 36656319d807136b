//! Deletes secrets when they expire.
//!
//! The time of expiry is an annotation, so the operator lists, watches and caches metadata only: no secret data enters the
//! process, and ten thousand secrets take a few megabytes.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, Verb,
    client::ResultExt, manager::AddError,
};
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use kube::{ResourceExt, core::PartialObjectMeta};

/// Annotation with the time of expiry: `2027-01-31T12:00:00Z`.
pub const EXPIRES: &str = "example.com/expires";

/// Metadata of a secret.
type SecretMeta = PartialObjectMeta<Secret>;

struct Expiry {
    secrets: Cached<SecretMeta>,
}

/// Adds the controller to a manager.
///
/// # Errors
///
/// The manager already has this controller.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    let expiry = Expiry { secrets: manager.cached() };
    Builder::managed_by(manager)
        .for_kind::<SecretMeta>()
        .named("expiry")
        .needs::<Secret>([Verb::Delete])
        .without_events()
        .complete(expiry)?;
    Ok(())
}

impl Reconciler for Expiry {
    type Request = ObjectKey<SecretMeta>;

    async fn reconcile(&self, key: &ObjectKey<SecretMeta>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(secret) = self.secrets.get(key)? else { return Ok(Action::done()) };
        let Some(expires) = secret.annotations().get(EXPIRES) else { return Ok(Action::done()) };
        // A retry would read the same value, so the error is terminal: the secret is reconciled again when it changes.
        let expires: Timestamp = expires.parse().map_err(ReconcileError::terminal)?;
        match cx.wall_time().duration_until(expires).try_into() {
            Ok(left) => Ok(Action::requeue_after(left)),
            Err(_) => {
                // Deletes only the uid and version that was read, so that a concurrent extension of the time wins.
                cx.client().delete(&*secret).await.optional()?;
                Ok(Action::done())
            }
        }
    }
}
