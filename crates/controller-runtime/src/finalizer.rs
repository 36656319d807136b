//! Finalizers of a controller: clean-up before an object is deleted.

use std::{borrow::Cow, fmt, future::Future, pin::Pin};

use kube::core::DynamicObject;

use crate::{
    client::{
        Client, ClientError, DynamicClient, ObjectRequests, add_finalizers, has_finalizer, without_finalizer,
    },
    object::{Object, StaticObject},
    reconcile::ReconcileError,
};

/// Clean-up before an object is deleted, such as deleting a bucket or a DNS record.
///
/// It must be idempotent: it runs again after a failure, and after a crash before the finalizer was removed from the object.
pub trait Finalizer<K>: Send + Sync + 'static {
    /// Cleans up after `object`, which is being deleted.
    ///
    /// # Errors
    ///
    /// The clean-up is incomplete: the object stays, and the reconcile is retried.
    fn finalize(&self, object: &K) -> impl Future<Output = Result<(), ReconcileError>> + Send;
}

/// The finalizers of a controller, by name.
///
/// A call of [`Finalizers::finalize`] at the beginning of a reconcile handles all of them:
///
/// ```
/// use controller_runtime::{Client, ReconcileError, finalizer::{Finalized, Finalizer, Finalizers}};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Bucket;
///
/// impl Finalizer<ConfigMap> for Bucket {
///     async fn finalize(&self, map: &ConfigMap) -> Result<(), ReconcileError> {
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
///     Finalized::CleanedUp => return Ok(()), // it is being deleted: nothing is left to reconcile
///     Finalized::Live(map) => map, // the stored version
/// };
/// # client.update(&*map).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "finalizer.Finalizers")]
pub struct Finalizers<K> {
    /// In order of registration, in which they run.
    registered: Vec<(String, Box<dyn AnyFinalizer<K>>)>,
}

/// Result of [`Finalizers::finalize`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an object that is being deleted must not be reconciled any more"]
pub enum Finalized<'o, K: Clone> {
    /// The object is not being deleted, and has all finalizers. It is [`Cow::Owned`] if some were missing (Go's `Updated`): the
    /// version that was stored with them, on which the next write must build.
    Live(Cow<'o, K>),
    /// The object is being deleted, and all finalizers have run.
    CleanedUp,
}

/// Error of [`Finalizers::finalize`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizeError {
    /// The object could not be written.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Some finalizers failed. Those that succeeded are removed from the object.
    #[error("{}", list(.failed))]
    Finalizers {
        /// Name and error of each that failed.
        failed: Vec<(String, String)>,
    },
}

/// Two finalizers have the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("finalizer {name} is registered already: give each its own name")]
pub struct DuplicateFinalizerError {
    name: String,
}

impl<K: Object> Finalizers<K> {
    /// No finalizers.
    #[must_use]
    pub fn new() -> Self {
        Self { registered: Vec::new() }
    }

    /// Adds a finalizer. Its name has the form `domain/word`.
    ///
    /// # Errors
    ///
    /// A finalizer of this name is already registered.
    pub fn register(
        mut self,
        name: impl Into<String>,
        finalizer: impl Finalizer<K>,
    ) -> Result<Self, DuplicateFinalizerError> {
        let name = name.into();
        if self.registered.iter().any(|(known, _)| *known == name) {
            return Err(DuplicateFinalizerError { name });
        }
        self.registered.push((name, Box::new(finalizer)));
        Ok(self)
    }

    /// Adds missing finalizers to a live object, in one request. For an object that is being deleted, runs its finalizers and
    /// removes each when it is done.
    ///
    /// After a failed finalizer the following ones still run. Each is removed in its own request, so that after a crash at
    /// most one runs again. A finalizer that changes the object or its status writes it itself. (In Go a finalizer can ask its
    /// caller to do so, with `StatusUpdated`.)
    ///
    /// # Errors
    ///
    /// A finalizer or a request failed; a conflict if `object` is not the current version.
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

    /// Finalizes with a client for kinds known at compile time or at run time.
    async fn finalize_by<'o>(
        &self,
        client: &impl ObjectRequests<K>,
        object: &'o K,
    ) -> Result<Finalized<'o, K>, FinalizeError> {
        if object.meta().deletion_timestamp.is_none() {
            let names = self.registered.iter().map(|(name, _)| name.as_str());
            let stored = add_finalizers(client, object, names).await?;
            return Ok(Finalized::Live(stored.map_or(Cow::Borrowed(object), Cow::Owned)));
        }
        let mut failed = Vec::new();
        // Each removal stores a new version, on which the next removal builds. Finalizers receive the object as given.
        let mut current = object.clone();
        for (name, finalizer) in &self.registered {
            if !has_finalizer(object, name) {
                continue;
            }
            match finalizer.finalize(object).await {
                Err(error) => failed.push((name.clone(), format!("{error:#}"))),
                Ok(()) => match without_finalizer(client, &current, name).await {
                    Ok(Some(stored)) => current = stored,
                    Ok(None) => return Ok(Finalized::CleanedUp), // the object does not exist any more
                    Err(error) if failed.is_empty() => return Err(error.into()),
                    // Reported together with the failures of earlier finalizers. The later finalizers run in the next reconcile.
                    Err(error) => {
                        failed.push((name.clone(), error.to_string()));
                        break;
                    }
                },
            }
        }
        if failed.is_empty() { Ok(Finalized::CleanedUp) } else { Err(FinalizeError::Finalizers { failed }) }
    }
}

impl Finalizers<DynamicObject> {
    /// Like [`Finalizers::finalize`], for an object of a kind known at run time.
    ///
    /// # Errors
    ///
    /// See [`Finalizers::finalize`].
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

/// Object-safe form of [`Finalizer`].
trait AnyFinalizer<K>: Send + Sync {
    fn finalize<'a>(
        &'a self,
        object: &'a K,
    ) -> Pin<Box<dyn Future<Output = Result<(), ReconcileError>> + Send + 'a>>;
}

impl<K, F: Finalizer<K>> AnyFinalizer<K> for F
where
    K: Sync,
{
    fn finalize<'a>(
        &'a self,
        object: &'a K,
    ) -> Pin<Box<dyn Future<Output = Result<(), ReconcileError>> + Send + 'a>> {
        Box::pin(Finalizer::finalize(self, object))
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.registered.iter().map(|(name, _)| name)).finish()
    }
}
