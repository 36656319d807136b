//! Deletes secrets when their time has come.
//!
//! When that is stands in an annotation, so metadata are all that is listed, watched and held: no secret ever comes into
//! this process, and ten thousand of them take some megabytes.

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Manager, ObjectKey, Reconciler, client::ResultExt,
    manager::AddError, reconcile,
};
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use kube::{ResourceExt, core::PartialObjectMeta};

/// The annotation that says when a secret is to be deleted: `2027-01-31T12:00:00Z`.
pub const EXPIRES: &str = "example.com/expires";

/// A secret, as far as its metadata tell.
type SecretMeta = PartialObjectMeta<Secret>;

struct Expiry {
    client: Client,
    secrets: Cached<SecretMeta>,
}

/// Gives the manager the controller.
///
/// # Errors
///
/// The manager has one.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    let expiry = Expiry { client: manager.client(), secrets: manager.cached() };
    Builder::managed_by(manager).for_kind::<SecretMeta>().named("expiry").complete(expiry)?;
    Ok(())
}

impl Reconciler for Expiry {
    type Request = ObjectKey<SecretMeta>;

    async fn reconcile(&self, key: &ObjectKey<SecretMeta>, cx: &Context) -> Result<Action, reconcile::Error> {
        let Some(secret) = self.secrets.get(key)? else { return Ok(Action::done()) };
        let Some(expires) = secret.annotations().get(EXPIRES) else { return Ok(Action::done()) };
        // Another attempt would read the same: an error waits for a change of the secret.
        let expires: Timestamp = expires.parse().map_err(reconcile::Error::terminal)?;
        match cx.wall_time().duration_until(expires).try_into() {
            Ok(left) => Ok(Action::requeue_after(left)),
            Err(_) => {
                // This very secret, as it was read: who has just given it more time is heard first.
                self.client.delete(&*secret).await.optional()?;
                Ok(Action::done())
            }
        }
    }
}
