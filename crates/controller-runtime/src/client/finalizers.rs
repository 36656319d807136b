use std::{borrow::Cow, fmt, future::Future, pin::Pin};

use kube::core::DynamicObject;

use super::{
    Client, DynamicClient, Error,
    finalizer::{add_finalizers, without_finalizer},
    has_finalizer,
    requests::Requests,
};
use crate::{
    object::{Object, StaticObject},
    reconcile,
};

/// What must be done before an object goes: a bucket deleted, a record removed.
///
/// Called again after a failure, and after a crash that came before the finalizer was removed, so it must not mind being
/// called twice.
pub trait Finalizer<K>: Send + Sync + 'static {
    /// Cleans up after `object`, which is being deleted.
    ///
    /// # Errors
    ///
    /// It is not done: the object stays, and the reconcile is tried again.
    fn finalize(&self, object: &K) -> impl Future<Output = Result<(), reconcile::Error>> + Send;
}

/// The finalizers of a controller, by name.
///
/// [`Finalizers::finalize`] at the beginning of a reconcile sees to all of them:
///
/// ```
/// use controller_runtime::{Client, client::{Finalized, Finalizer, Finalizers}, reconcile};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Bucket;
///
/// impl Finalizer<ConfigMap> for Bucket {
///     async fn finalize(&self, map: &ConfigMap) -> Result<(), reconcile::Error> {
///         println!("the bucket of {:?} is deleted", map.metadata.name);
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let finalizers = Finalizers::new().register("example.com/bucket", Bucket)?;
/// # let env = kube_envtest::Environment::builder().start().await?;
/// # let client = Client::new(env.client(), "test");
/// # let mut map = ConfigMap::default();
/// # map.metadata.namespace = Some("default".to_owned());
/// # map.metadata.name = Some("a".to_owned());
/// let map = client.create(&map).await?;
/// // in a reconciler:
/// let map = match finalizers.finalize(&client, &map).await? {
///     Finalized::Going => return Ok(()), // cleaned up: nothing to do for what is no more
///     Finalized::Live(map) => map,       // as it is stored now
/// };
/// # client.update(&*map).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "finalizer.Finalizers")]
pub struct Finalizers<K> {
    /// In the order of their registration, which is the order in which they run.
    registered: Vec<(String, Box<dyn AnyFinalizer<K>>)>,
}

/// What [`Finalizers::finalize`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "what is going must not be built up again"]
pub enum Finalized<'o, K: Clone> {
    /// The object lives, and has all finalizers now. It is [`Cow::Owned`] if it lacked some, Go's `Updated`: the version that
    /// was stored with them, on which the next write has to build.
    Live(Cow<'o, K>),
    /// The object is being deleted, and all that was to be done is done.
    Going,
}

/// Why [`Finalizers::finalize`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizeError {
    /// The object could not be written.
    #[error(transparent)]
    Client(#[from] Error),
    /// Some finalizers failed. Those that did not are removed from the object.
    #[error("{}", list(.failed))]
    Finalizers {
        /// Name and error of each that failed.
        failed: Vec<(String, String)>,
    },
}

/// A name that two finalizers were to have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("finalizer {name} is registered already: give each its own name")]
pub struct DuplicateFinalizer {
    name: String,
}

impl<K: Object> Finalizers<K> {
    /// No finalizers.
    #[must_use]
    pub fn new() -> Self {
        Self { registered: Vec::new() }
    }

    /// Adds one. Its name has the form `domain/word`.
    ///
    /// # Errors
    ///
    /// There is one of that name.
    pub fn register(
        mut self,
        name: impl Into<String>,
        finalizer: impl Finalizer<K>,
    ) -> Result<Self, DuplicateFinalizer> {
        let name = name.into();
        if self.registered.iter().any(|(known, _)| *known == name) {
            return Err(DuplicateFinalizer { name });
        }
        self.registered.push((name, Box::new(finalizer)));
        Ok(self)
    }

    /// Gives a living object the finalizers that it lacks, in one request; runs those of an object that is being deleted,
    /// and removes them as they are done.
    ///
    /// A finalizer that fails does not keep those after it from running. Each is removed in a request of its own, so that
    /// a crash repeats one at most. One that has to write the object, its status say, does so itself: Go's `StatusUpdated`,
    /// by which a finalizer asks its caller for that, is not here.
    ///
    /// # Errors
    ///
    /// A finalizer or a request failed; a conflict if `object` is not the present version.
    pub async fn finalize<'o>(
        &self,
        client: &Client,
        object: &'o K,
    ) -> Result<Finalized<'o, K>, FinalizeError>
    where
        K: StaticObject,
    {
        self.finalize_by(client, object).await
    }

    async fn finalize_by<'o>(
        &self,
        client: &impl Requests<K>,
        object: &'o K,
    ) -> Result<Finalized<'o, K>, FinalizeError> {
        if object.meta().deletion_timestamp.is_none() {
            let names = self.registered.iter().map(|(name, _)| name.as_str());
            let stored = add_finalizers(client, object, names).await?;
            return Ok(Finalized::Live(stored.map_or(Cow::Borrowed(object), Cow::Owned)));
        }
        let mut failed = Vec::new();
        let mut current = object.clone();
        for (name, finalizer) in &self.registered {
            if !has_finalizer(object, name) {
                continue;
            }
            match finalizer.finalize(object).await {
                Err(error) => failed.push((name.clone(), format!("{error:#}"))),
                Ok(()) => match without_finalizer(client, &current, name).await? {
                    Some(stored) => current = stored,
                    None => return Ok(Finalized::Going), // gone altogether
                },
            }
        }
        if failed.is_empty() { Ok(Finalized::Going) } else { Err(FinalizeError::Finalizers { failed }) }
    }
}

impl Finalizers<DynamicObject> {
    /// [`Finalizers::finalize`] of an object of a kind that is known at run time.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn finalize_dynamic<'o>(
        &self,
        client: &DynamicClient,
        object: &'o DynamicObject,
    ) -> Result<Finalized<'o, DynamicObject>, FinalizeError> {
        self.finalize_by(client, object).await
    }
}

impl<K: Object> Default for Finalizers<K> {
    fn default() -> Self {
        Self::new()
    }
}

fn list(failed: &[(String, String)]) -> String {
    let lines: Vec<String> =
        failed.iter().map(|(name, error)| format!("finalizer {name}: {error}")).collect();
    lines.join("; ")
}

/// A finalizer of any type.
trait AnyFinalizer<K>: Send + Sync {
    fn finalize<'a>(
        &'a self,
        object: &'a K,
    ) -> Pin<Box<dyn Future<Output = Result<(), reconcile::Error>> + Send + 'a>>;
}

impl<K, F: Finalizer<K>> AnyFinalizer<K> for F
where
    K: Sync,
{
    fn finalize<'a>(
        &'a self,
        object: &'a K,
    ) -> Pin<Box<dyn Future<Output = Result<(), reconcile::Error>> + Send + 'a>> {
        Box::pin(Finalizer::finalize(self, object))
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.registered.iter().map(|(name, _)| name)).finish()
    }
}
