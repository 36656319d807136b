use std::error::Error as StdError;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{
    Client, DynamicClient, Error, Patch, Verb, dynamic::types, patch::difference, requests::Requests,
    retry::ATTEMPTS,
};
use crate::object::{Object, ObjectKey, StaticObject};

/// What [`Client::create_or_update`] or [`Client::create_or_patch`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "OperationResult")]
pub enum Ensured {
    /// There was no such object: it was created.
    Created,
    /// The object, but not its status, was changed.
    Updated,
    /// The object and its status were changed.
    UpdatedWithStatus,
    /// The status alone was changed.
    UpdatedStatus,
    /// The object was as it should be.
    Unchanged,
}

/// What the function that changes an object may fail with: anything, by `?`.
pub type MutateError = Box<dyn StdError + Send + Sync>;

impl Client {
    /// Creates the object, or reads it, lets `mutate` change it, and replaces it if that made a difference.
    ///
    /// `object` says which object it is and what a new one begins with; `mutate` makes it as it should be, whether it is
    /// new or was read, and must not change its name. Conflicts with others are retried as
    /// [`Client::retry_on_conflict`] does, so `mutate` may be called several times. The status is not written.
    ///
    /// Prefer [`Client::apply`], which is one request and leaves the fields of others alone.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, client::Error};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: Client, settings: ConfigMap) -> Result<(), Error> {
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
    ) -> Result<(K, Ensured), Error> {
        ensure(self, object, mutate, By::Update).await
    }

    /// Creates the object, or reads it, lets `mutate` change it, and sends what differs: for the status and for the rest a
    /// merge patch each, as far as there is something to send. A new object's status is not written.
    ///
    /// As [`Client::create_or_update`] otherwise. Lists that differ are sent whole.
    ///
    /// # Errors
    ///
    /// A request failed, or `mutate` did.
    #[doc(alias = "CreateOrPatch")]
    pub async fn create_or_patch<K: StaticObject>(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<(), MutateError> + Send,
    ) -> Result<(K, Ensured), Error> {
        ensure(self, object, mutate, By::Patch).await
    }
}

impl DynamicClient {
    /// See [`Client::create_or_update`]. The object is of this kind, whatever its `types` say.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn create_or_update(
        &self,
        object: DynamicObject,
        mutate: impl FnMut(&mut DynamicObject) -> Result<(), MutateError> + Send,
    ) -> Result<(DynamicObject, Ensured), Error> {
        ensure(self, object, self.keeping_kind(mutate), By::Update).await
    }

    /// See [`Client::create_or_patch`]. The object is of this kind, whatever its `types` say.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn create_or_patch(
        &self,
        object: DynamicObject,
        mutate: impl FnMut(&mut DynamicObject) -> Result<(), MutateError> + Send,
    ) -> Result<(DynamicObject, Ensured), Error> {
        ensure(self, object, self.keeping_kind(mutate), By::Patch).await
    }

    /// So that an object that `mutate` makes anew does not differ by its kind.
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
    client: &impl Requests<K>,
    object: K,
    mut mutate: impl FnMut(&mut K) -> Result<(), MutateError> + Send,
    by: By,
) -> Result<(K, Ensured), Error> {
    let mut attempts = 1;
    loop {
        let outcome = ensure_once(client, &object, &mut mutate, by).await;
        match outcome {
            // Somebody changed, created or deleted it since it was read.
            Err(error) if attempts < ATTEMPTS && was_overtaken(&error) => {
                attempts += 1;
                client.client().pause().await;
            }
            outcome => return outcome,
        }
    }
}

async fn ensure_once<K: Object>(
    client: &impl Requests<K>,
    object: &K,
    mutate: &mut (impl FnMut(&mut K) -> Result<(), MutateError> + Send),
    by: By,
) -> Result<(K, Ensured), Error> {
    let fail = |reason: &str| client.unsent(by.verb(), object, reason);
    let key = client.key_of(by.verb(), object)?;
    let found = client.get(&key).await?;
    let mut new = found.clone().unwrap_or_else(|| object.clone());
    mutate(&mut new)
        .map_err(|error| fail("the object could not be made as it should be").caused_by(error))?;
    if client.find_key(&new).as_ref() != Some(&key) {
        return Err(fail("the name or namespace was changed, so it would be another object"));
    }
    let Some(old) = found else {
        return Ok((client.create(&new).await?, Ensured::Created));
    };
    let values = serde_json::to_value(&old).and_then(|old| Ok((old, serde_json::to_value(&new)?)));
    let (before, after) = values.map_err(|error| fail(&error.to_string()))?;
    match difference(&before, &after) {
        None => Ok((new, Ensured::Unchanged)),
        Some(difference) => write_difference(client, &key, &old, new, difference, by).await,
    }
}

async fn write_difference<K: Object>(
    client: &impl Requests<K>,
    key: &ObjectKey<K>,
    old: &K,
    new: K,
    mut difference: Value,
    by: By,
) -> Result<(K, Ensured), Error> {
    let status = difference.as_object_mut().and_then(|fields| fields.remove("status"));
    let differs = difference.as_object().is_some_and(|fields| !fields.is_empty());
    let stored = match by {
        _ if !differs => None,
        By::Update => Some(client.update(&new).await?),
        By::Patch => Some(client.patch(key, Patch::merge(&difference).with_version_of(old)).await?),
    };
    match (status, stored) {
        (Some(status), stored) if by == By::Patch => {
            let done = if differs { Ensured::UpdatedWithStatus } else { Ensured::UpdatedStatus };
            let patch = Patch::merge(&json!({ "status": status }));
            let patch = patch.with_version_of(stored.as_ref().unwrap_or(old));
            Ok((client.subresource(key, "status").patch(patch).await?, done))
        }
        (_, Some(stored)) => Ok((stored, Ensured::Updated)),
        (_, None) => Ok((new, Ensured::Unchanged)),
    }
}

/// How an object that is there is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Update,
    Patch,
}

impl By {
    fn verb(self) -> Verb {
        match self {
            Self::Update => Verb::Update,
            Self::Patch => Verb::Patch,
        }
    }
}

fn was_overtaken(error: &Error) -> bool {
    error.is_conflict()
        || error.verb() == Verb::Create && error.is_already_exists()
        || error.verb() != Verb::Create && error.is_not_found()
}
