//! Deletes of one object and of many.

use std::{
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    time::Duration,
};

use bytes::Bytes;
use kube::core::ObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value};

use super::many::Many;
use crate::client::transport::{
    call::Call,
    client::Client,
    error::ClientError,
    own_writes::{Termination, reports_deletion},
    preconditions::Preconditions,
};

/// Deletion of the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// Dependents are deleted after the owner.
    Background,
    /// Dependents are deleted first; the owner stays until those that block its deletion are gone.
    Foreground,
    /// Dependents stay, without this owner.
    Orphan,
}

/// Outcome of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The object is gone.
    Done,
    /// The object is being deleted: it waits for finalizers, its dependents or its grace period.
    Begun,
    /// There was no such object.
    NotFound,
}

/// A delete, sent when it is awaited.
#[must_use = "a request is sent when it is awaited"]
pub struct Delete<K> {
    client: Client,
    call: Result<Call, ClientError>,
    options: DeleteOptions,
    to_cache: bool,
    kind: PhantomData<fn() -> K>,
}

/// `DeleteOptions` of the API.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dry_run: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<Propagation>,
    #[serde(skip_serializing_if = "Preconditions::is_empty")]
    preconditions: Preconditions,
    /// Options added by the caller; this crate does not interpret them.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// Names of the options that have a method.
const RESERVED: [&str; 4] = ["dryRun", "gracePeriodSeconds", "propagationPolicy", "preconditions"];

impl DeleteOptions {
    fn of(client: &Client) -> Self {
        let dry_run = if client.settings().dry_run { vec!["All"] } else { Vec::new() };
        // kubectl and most controllers use background deletion. Without a policy, some old kinds orphan their dependents.
        Self { dry_run, propagation_policy: Some(Propagation::Background), ..Self::default() }
    }

    fn write_to(&self, call: &mut Call) -> Result<(), ClientError> {
        if let Some(name) = RESERVED.iter().find(|name| self.more.contains_key(**name)) {
            return Err(ClientError::not_sent(
                call,
                format!("option {name} is reserved by the client: set it with the method of the request"),
            ));
        }
        call.dry_run = !self.dry_run.is_empty();
        let body =
            serde_json::to_vec(self).map_err(|error| ClientError::not_sent(call, error.to_string()))?;
        call.body = Bytes::from(body);
        Ok(())
    }
}

impl<K> Delete<K> {
    pub(in crate::client) fn new(client: &Client, call: Result<Call, ClientError>) -> Self {
        let options = DeleteOptions::of(client);
        Self { client: client.clone(), call, options, to_cache: true, kind: PhantomData }
    }

    /// Sets UID and resourceVersion of `meta` as preconditions.
    pub(in crate::client) fn only(mut self, meta: &ObjectMeta) -> Self {
        self.options.preconditions = Preconditions::of(meta);
        self
    }

    /// Deletes the object even if it has changed since it was read; its UID remains a precondition. Default: the version must
    /// match.
    pub fn any_version(mut self) -> Self {
        self.options.preconditions.resource_version = None;
        self
    }

    /// Deletes only the object of this UID, not another one of the same name. Default: [`Client::delete`] uses the UID of the
    /// object, [`Client::delete_key`] none.
    #[doc(alias = "Preconditions")]
    pub fn only_uid(mut self, uid: impl Into<String>) -> Self {
        self.options.preconditions.uid = Some(uid.into());
        self
    }

    /// Deletes the object only in this version. Default: [`Client::delete`] uses the version of the object,
    /// [`Client::delete_key`] none.
    #[doc(alias = "Preconditions")]
    pub fn only_version(mut self, resource_version: impl Into<String>) -> Self {
        self.options.preconditions.resource_version = Some(resource_version.into());
        self
    }

    /// Sets whether the object's dependents are deleted, and when. Default: [`Propagation::Background`].
    #[doc(alias = "PropagationPolicy")]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation_policy = Some(propagation);
        self
    }

    /// Sets the time that the object has to terminate, in whole seconds; zero ends it at once. Default: the object's own. Kinds
    /// other than pods are deleted at once, whatever the value.
    #[doc(alias = "GracePeriodSeconds")]
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.options.grace_period_seconds = Some(grace.as_secs());
        self
    }

    /// Only validates the request; nothing is deleted. Default: the client's setting, which is off.
    #[doc(alias = "DryRunAll")]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = vec!["All"];
        self
    }

    /// Adds one of the API's `DeleteOptions` for which there is no method here, as a field of the request body. An option that
    /// has a method makes the delete fail before it is sent.
    #[doc(alias = "Raw")]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.more.insert(name.into(), value.into());
        self
    }

    /// Sets the time that this request may take; see
    /// [`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout). Default: the client's, which is 60
    /// s unless it was built with another.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        if let Ok(call) = &mut self.call {
            call.timeout = Some(timeout);
        }
        self
    }

    /// Removes the object from the cache only when the watch delivers the deletion. Default: the next cached read
    /// reflects the delete.
    pub fn not_to_cache(mut self) -> Self {
        self.to_cache = false;
        self
    }

    async fn send(self) -> Result<Deletion, ClientError> {
        let Self { client, call, options, to_cache, .. } = self;
        let mut call = call?;
        options.write_to(&mut call)?;
        match client.write(call, to_cache).await {
            Ok((_, answer)) if reports_deletion(&answer) => Ok(Deletion::Done),
            Ok(_) => Ok(Deletion::Begun),
            Err(error) if error.is_not_found() => Ok(Deletion::NotFound),
            Err(error) => Err(error),
        }
    }
}

impl<K: 'static> IntoFuture for Delete<K> {
    type Output = Result<Deletion, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A delete of many objects, sent when it is awaited.
///
/// Cached reads no longer return objects that were removed at once: those in the response that have no finalizer and, for pods,
/// no grace period. The others stay in the cache until the watch reports their deletion.
pub type DeleteAll<K> = Many<K, Deleting>;

/// Options that only a [`DeleteAll`] has.
#[derive(Debug)]
pub struct Deleting {
    options: DeleteOptions,
    to_cache: bool,
}

impl<K> DeleteAll<K> {
    pub(in crate::client) fn new(client: &Client, call: Call) -> Self {
        Self::about(client, call, Deleting { options: DeleteOptions::of(client), to_cache: true })
    }

    /// Sets whether the dependents of the objects are deleted, and when. Default: [`Propagation::Background`].
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.verb.options.propagation_policy = Some(propagation);
        self
    }

    /// Sets the time that each object has to terminate, as for [`Delete::grace_period`].
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.verb.options.grace_period_seconds = Some(grace.as_secs());
        self
    }

    /// Only validates the request; nothing is deleted. Default: the client's setting, which is off.
    pub fn dry_run(mut self) -> Self {
        self.verb.options.dry_run = vec!["All"];
        self
    }

    /// Adds one of the API's `DeleteOptions`, as for [`Delete::option`].
    #[doc(alias = "Raw")]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.verb.options.more.insert(name.into(), value.into());
        self
    }

    /// Removes the objects from the cache only when the watch delivers their deletion. Default: the next cached read
    /// reflects the delete.
    pub fn not_to_cache(mut self) -> Self {
        self.verb.to_cache = false;
        self
    }

    async fn send(self) -> Result<(), ClientError> {
        let mut call = self.selecting();
        let Self { client, verb: Deleting { options, to_cache }, .. } = self;
        options.write_to(&mut call)?;
        let answer = client.send(call.clone()).await?.into_bytes();
        // Other policies add a finalizer, so that the objects stay for a while.
        if to_cache && !call.dry_run && options.propagation_policy == Some(Propagation::Background) {
            let termination = match options.grace_period_seconds {
                Some(0) => Termination::AtOnce,
                _ => Termination::Graceful,
            };
            client.record_presumed_deletions(&call, &answer, termination);
        }
        Ok(())
    }
}

impl<K: 'static> IntoFuture for DeleteAll<K> {
    type Output = Result<(), ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<K> fmt::Debug for Delete<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, options, .. } = self;
        f.debug_struct("Delete").field("call", call).field("options", options).finish_non_exhaustive()
    }
}
