//! Copies of secrets in the namespaces that want them.
//!
//! A namespace says by a label which secret of the [`VAULT`] it wants. When a secret changes, a map function says which
//! namespaces that concerns, by a look into an index: no namespace is read for it, however many there are.

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Kind, Manager, MapMeta, ObjectKey, Reconciler,
    cache::{Index, Meta},
    reconcile, set_controller_reference,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::ResourceExt;

/// The namespace of the secrets that are copied.
pub const VAULT: &str = "vault";

/// The label by which a namespace names the secret that it wants.
pub const WANTS: &str = "example.com/wants-secret";

/// Copies a secret into a namespace that wants it.
struct SecretSync {
    client: Client,
    namespaces: Cached<Namespace>,
    vault: Cached<Secret>,
}

/// Gives the manager the controller.
///
/// # Errors
///
/// The manager has one.
pub fn add_to(manager: &Manager) -> anyhow::Result<()> {
    let namespaces = manager.cached::<Namespace>();
    let vault = manager.cache().of::<Secret>().namespaces([VAULT]).build()?;

    let by_secret = namespaces.index_by_meta(|meta| meta.labels().get(WANTS).map(str::to_owned));
    Builder::managed_by(manager)
        .for_kind::<Namespace>()
        .owns::<Secret>() // who changes a copy has it changed back; of copies only metadata are held
        .watches(Kind::of(&vault, MapMeta(wanted_by(by_secret))))
        .complete(SecretSync { client: manager.client(), namespaces, vault })?;
    Ok(())
}

/// The namespaces that want a secret.
fn wanted_by(
    by_secret: Index<Namespace, String>,
) -> impl Fn(&Meta) -> Vec<ObjectKey<Namespace>> + Send + Sync {
    move |secret: &Meta| by_secret.keys(secret.name()).expect("caches are complete before controllers start")
}

impl Reconciler for SecretSync {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, _: &Context) -> Result<Action, reconcile::Error> {
        let Some(namespace) = self.namespaces.get(key)? else { return Ok(Action::done()) }; // and its secrets with it
        let Some(wanted) = namespace.labels().get(WANTS).filter(|_| key.name() != VAULT) else {
            return Ok(Action::done()); // it has had one, perhaps, which may stay
        };
        let Some(secret) = self.vault.get(&ObjectKey::new(VAULT, &**wanted))? else {
            return Ok(Action::done()); // its coming will be told
        };
        let mut copy = Secret { type_: secret.type_.clone(), data: secret.data.clone(), ..Secret::default() };
        copy.metadata.namespace = Some(key.name().to_owned());
        copy.metadata.name = secret.metadata.name.clone();
        set_controller_reference(&*namespace, &mut copy)?;
        self.client.apply(&copy).await?;
        Ok(Action::done())
    }
}
