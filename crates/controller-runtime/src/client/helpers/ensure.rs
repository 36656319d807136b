//! `create_or_update` and `create_or_patch`: read, change and write an object, with retries of conflicts.

use std::error::Error as StdError;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::retry::ATTEMPTS;
use crate::{
    client::{
        requests::{
            dynamic::{DynamicClient, types},
            object_requests::ObjectRequests,
            patch::{Patch, difference},
        },
        transport::{call::Verb, client::Client, error::ClientError},
    },
    object::{Object, ObjectKey, StaticObject},
};

/// Action taken by [`Client::create_or_update`] or [`Client::create_or_patch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "OperationResult")]
pub enum Ensured {
    /// The object did not exist and was created.
    Created,
    /// The object, but not its status, was changed.
    Updated,
    /// The object and its status were changed.
    UpdatedWithStatus,
    /// The status alone was changed.
    UpdatedStatus,
    /// The object needed no change.
    Unchanged,
}

/// Error of the function that changes an object. `?` converts any error into it.
pub type MutateError = Box<dyn StdError + Send + Sync>;

impl Client {
    /// Reads the object, lets `mutate` change it, and replaces it if it has changed. Creates the object if it does not exist.
    ///
    /// `object` holds the key, and the initial content of a new object. `mutate` brings a new or existing object into the
    /// desired state, and must not change its name. Conflicts are retried as [`Client::retry_on_conflict`] does, so `mutate`
    /// may be called several times. The status is not written.
    ///
    /// Prefer [`Client::apply`], which is one request and leaves fields of other managers alone.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, ClientError};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: Client, settings: ConfigMap) -> Result<(), ClientError> {
    /// let (stored, done) = client.create_or_update(settings, |map| {
    ///     map.data.get_or_insert_default().insert("theme".to_owned(), "roses".to_owned());
    ///     Ok(())
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A request failed, or `mutate` did.
    #[doc(alias = "CreateOrUpdate")]
    pub async fn create_or_update<K: StaticObject>(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<(), MutateError> + Send,
    ) -> Result<(K, Ensured), ClientError> {
        ensure(self, object, mutate, ChangeBy::Update).await
    }

    /// Reads the object, lets `mutate` change it, and sends the differences as merge patches: one for the status and one for
    /// the rest, each only if something differs. Creates the object if it does not exist; the status of a new object is not
    /// written.
    ///
    /// Otherwise like [`Client::create_or_update`]. Lists that differ are sent as a whole.
    ///
    /// # Errors
    ///
    /// A request failed, or `mutate` did.
    #[doc(alias = "CreateOrPatch")]
    pub async fn create_or_patch<K: StaticObject>(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<(), MutateError> + Send,
    ) -> Result<(K, Ensured), ClientError> {
        ensure(self, object, mutate, ChangeBy::Patch).await
    }
}

impl DynamicClient {
    /// Like [`Client::create_or_update`]. The object has the kind of this client, even if its `types` name another one.
    ///
    /// # Errors
    ///
    /// See [`Client::create_or_update`].
    pub async fn create_or_update(
        &self,
        object: DynamicObject,
        mutate: impl FnMut(&mut DynamicObject) -> Result<(), MutateError> + Send,
    ) -> Result<(DynamicObject, Ensured), ClientError> {
        ensure(self, object, self.keeping_kind(mutate), ChangeBy::Update).await
    }

    /// Like [`Client::create_or_patch`]. The object has the kind of this client, even if its `types` name another one.
    ///
    /// # Errors
    ///
    /// See [`Client::create_or_patch`].
    pub async fn create_or_patch(
        &self,
        object: DynamicObject,
        mutate: impl FnMut(&mut DynamicObject) -> Result<(), MutateError> + Send,
    ) -> Result<(DynamicObject, Ensured), ClientError> {
        ensure(self, object, self.keeping_kind(mutate), ChangeBy::Patch).await
    }

    /// Sets the kind after `mutate`, so that an object that `mutate` builds from scratch does not differ by its `types`.
    fn keeping_kind(
        &self,
        mut mutate: impl FnMut(&mut DynamicObject) -> Result<(), MutateError> + Send,
    ) -> impl FnMut(&mut DynamicObject) -> Result<(), MutateError> + Send {
        let types = types(self.kind());
        move |object| {
            mutate(object)?;
            object.types = Some(types.clone());
            Ok(())
        }
    }
}

async fn ensure<K: Object>(
    client: &impl ObjectRequests<K>,
    object: K,
    mut mutate: impl FnMut(&mut K) -> Result<(), MutateError> + Send,
    by: ChangeBy,
) -> Result<(K, Ensured), ClientError> {
    let mut attempts = 1;
    loop {
        let outcome = ensure_once(client, &object, &mut mutate, by).await;
        match outcome {
            // Another client changed, created or deleted the object after it was read.
            Err(error) if attempts < ATTEMPTS && was_overtaken(&error) => {
                attempts += 1;
                client.client().pause().await;
            }
            outcome => return outcome,
        }
    }
}

async fn ensure_once<K: Object>(
    client: &impl ObjectRequests<K>,
    object: &K,
    mutate: &mut (impl FnMut(&mut K) -> Result<(), MutateError> + Send),
    by: ChangeBy,
) -> Result<(K, Ensured), ClientError> {
    let fail = |reason: &str| client.unsent(by.verb(), object, reason);
    let key = client.key_of(by.verb(), object)?;
    let found = client.get(&key).await?;
    // `mutate` gets a copy, so that its changes to the object can be computed.
    let mut new = found.clone().unwrap_or_else(|| object.clone());
    mutate(&mut new).map_err(|error| fail("the function that changes the object failed").caused_by(error))?;
    if client.find_key(&new).as_ref() != Some(&key) {
        return Err(fail("the function changed the name or namespace of the object: leave both unchanged"));
    }
    let Some(old) = found else {
        return Ok((client.create(&new).await?, Ensured::Created));
    };
    // Compared as JSON, because `K` need not be `PartialEq`, and a patch needs the JSON anyway.
    let values = serde_json::to_value(&old).and_then(|old| Ok((old, serde_json::to_value(&new)?)));
    let (before, after) = values.map_err(|error| fail(&error.to_string()))?;
    match difference(&before, &after) {
        None => Ok((new, Ensured::Unchanged)),
        Some(difference) => write_difference(client, &key, old, new, difference, by).await,
    }
}

async fn write_difference<K: Object>(
    client: &impl ObjectRequests<K>,
    key: &ObjectKey<K>,
    old: K,
    new: K,
    mut difference: Value,
    by: ChangeBy,
) -> Result<(K, Ensured), ClientError> {
    let status = difference.as_object_mut().and_then(|fields| fields.remove("status"));
    let differs = difference.as_object().is_some_and(|fields| !fields.is_empty());
    let stored = match by {
        _ if !differs => None,
        ChangeBy::Update => Some(client.update(&new).await?),
        ChangeBy::Patch => Some(client.patch(key, Patch::merge(&difference).with_version_of(&old)).await?),
    };
    match (status, stored) {
        // The status is a subresource, so a patch of the object does not change it.
        (Some(status), stored) if by == ChangeBy::Patch => {
            let done = if differs { Ensured::UpdatedWithStatus } else { Ensured::UpdatedStatus };
            let patch = Patch::merge(&json!({ "status": status }));
            // The patch of the object has created a new version.
            let patch = patch.with_version_of(stored.as_ref().unwrap_or(&old));
            Ok((client.subresource(key, "status").patch(patch).await?, done))
        }
        (_, Some(stored)) => Ok((stored, Ensured::Updated)),
        // The status was not written, so the stored object is the one that was read.
        (_, None) => Ok((old, Ensured::Unchanged)),
    }
}

/// Request that changes an existing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeBy {
    Update,
    Patch,
}

impl ChangeBy {
    fn verb(self) -> Verb {
        match self {
            Self::Update => Verb::Update,
            Self::Patch => Verb::Patch,
        }
    }
}

fn was_overtaken(error: &ClientError) -> bool {
    error.is_conflict()
        || error.verb() == Verb::Create && error.is_already_exists()
        || error.verb() != Verb::Create && error.is_not_found()
}
