//! Copies secrets into the namespaces that request them.
//!
//! A label of a namespace names the requested secret of the namespace [`SOURCE_NAMESPACE`]. When a secret changes, a map
//! function looks up the namespaces that request it in an index, without reading any namespace object.

use controller_runtime::{
    Action, Builder, Cached, Context, Kind, Manager, ObjectKey, ReadError, ReconcileError, Reconciler,
    TryMapMeta,
    cache::{Index, Meta},
    set_controller_reference,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::ResourceExt;

/// Namespace of the source secrets.
pub const SOURCE_NAMESPACE: &str = "vault";

/// Label of a namespace with the name of the secret that it requests.
pub const REQUEST_LABEL: &str = "example.com/wants-secret";

/// Copies the requested secret into a namespace.
struct SecretSync {
    namespaces: Cached<Namespace>,
    sources: Cached<Secret>,
}

/// Adds the controller to a manager.
///
/// # Errors
///
/// The manager already has this controller.
pub fn add_to(manager: &Manager) -> anyhow::Result<()> {
    let namespaces = manager.cached::<Namespace>();
    let sources = manager.cache().of::<Secret>().namespaces([SOURCE_NAMESPACE]).build()?;

    let by_secret = namespaces.index_by_meta(|meta| meta.labels().get(REQUEST_LABEL).map(str::to_owned));
    Builder::managed_by(manager)
        .for_kind::<Namespace>()
        .owns::<Secret>() // restores changed copies; caches only the metadata of copies
        .watches(Kind::of(&sources, TryMapMeta(requested_by(by_secret))))
        .without_events()
        .complete(SecretSync { namespaces, sources })?;
    Ok(())
}

/// Maps a secret to the namespaces that request it.
fn requested_by(
    by_secret: Index<Namespace, String>,
) -> impl Fn(&Meta) -> Result<Vec<ObjectKey<Namespace>>, ReadError> + Send + Sync {
    move |secret: &Meta| by_secret.keys(secret.name())
}

impl Reconciler for SecretSync {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.namespaces.get(key)? else { return Ok(Action::done()) }; // deleted with its secrets
        let Some(wanted) = namespace.labels().get(REQUEST_LABEL).filter(|_| key.name() != SOURCE_NAMESPACE)
        else {
            return Ok(Action::done()); // a copy from an earlier label stays
        };
        let Some(secret) = self.sources.get(&ObjectKey::new(SOURCE_NAMESPACE, &**wanted))? else {
            return Ok(Action::done()); // reconciled again when the secret is created
        };
        let mut copy = Secret { type_: secret.type_.clone(), data: secret.data.clone(), ..Secret::default() };
        copy.metadata.namespace = Some(key.name().to_owned());
        copy.metadata.name = secret.metadata.name.clone();
        set_controller_reference(&*namespace, &mut copy)?;
        cx.client().apply(&copy).await?;
        Ok(Action::done())
    }
}
