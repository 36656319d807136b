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

use super::{Call, Client, Error, Many, own_writes::is_gone, preconditions::Preconditions};

/// What happens to the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it: it stays until those that block its deletion are gone.
    Foreground,
    /// They stay, without an owner.
    Orphan,
}

/// What became of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The object is gone.
    Done,
    /// The object is being deleted: it waits for finalizers, its dependents or its grace period.
    Begun,
    /// There was no such object.
    NothingThere,
}

/// A delete that is sent when it is awaited.
#[must_use = "a request is sent when it is awaited"]
pub struct Delete<K> {
    client: Client,
    call: Result<Call, Error>,
    options: Options,
    to_cache: bool,
    kind: PhantomData<fn() -> K>,
}

/// `DeleteOptions` of the API.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dry_run: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<Propagation>,
    #[serde(skip_serializing_if = "Preconditions::is_empty")]
    preconditions: Preconditions,
    /// What the caller adds, of which nothing is known here.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The options that have a method.
const OWN: [&str; 4] = ["dryRun", "gracePeriodSeconds", "propagationPolicy", "preconditions"];

impl Options {
    fn of(client: &Client) -> Self {
        let dry_run = if client.settings().dry_run { vec!["All"] } else { Vec::new() };
        // What kubectl and most controllers want; without it some old kinds leave their dependents behind.
        Self { dry_run, propagation_policy: Some(Propagation::Background), ..Self::default() }
    }

    fn write_to(&self, call: &mut Call) -> Result<(), Error> {
        if let Some(own) = OWN.iter().find(|own| self.more.contains_key(**own)) {
            return Err(Error::not_sent(
                call,
                format!("option {own} is the client's own: use the method for it"),
            ));
        }
        call.dry_run = !self.dry_run.is_empty();
        let body = serde_json::to_vec(self).map_err(|error| Error::not_sent(call, error.to_string()))?;
        call.body = Bytes::from(body);
        Ok(())
    }
}

impl<K> Delete<K> {
    pub(super) fn new(client: &Client, call: Result<Call, Error>) -> Self {
        let options = Options::of(client);
        Self { client: client.clone(), call, options, to_cache: true, kind: PhantomData }
    }

    /// Only the very object that has this metadata.
    pub(super) fn only(mut self, meta: &ObjectMeta) -> Self {
        self.options.preconditions = Preconditions::of(meta);
        self
    }

    /// Deletes the object even if it has changed since it was read; its uid still counts. Default: not so.
    pub fn any_version(mut self) -> Self {
        self.options.preconditions.resource_version = None;
        self
    }

    /// Deletes the object of this uid alone, and not another one that has taken its name. Default: in [`Client::delete`] the
    /// uid of the object, in [`Client::delete_key`] any.
    #[doc(alias = "Preconditions")]
    pub fn only_uid(mut self, uid: impl Into<String>) -> Self {
        self.options.preconditions.uid = Some(uid.into());
        self
    }

    /// Deletes the object in this version alone. Default: in [`Client::delete`] the version of the object, in
    /// [`Client::delete_key`] any.
    #[doc(alias = "Preconditions")]
    pub fn only_version(mut self, resource_version: impl Into<String>) -> Self {
        self.options.preconditions.resource_version = Some(resource_version.into());
        self
    }

    /// What happens to the objects that it owns. Default: they are deleted after it.
    #[doc(alias = "PropagationPolicy")]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation_policy = Some(propagation);
        self
    }

    /// How long the object may take to end, in whole seconds; zero ends it at once. Default: what the object says. Kinds
    /// other than pods end at once whatever is said.
    #[doc(alias = "GracePeriodSeconds")]
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.options.grace_period_seconds = Some(grace.as_secs());
        self
    }

    /// Goes through everything but deletes nothing. Default: as the client, which deletes.
    #[doc(alias = "DryRunAll")]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = vec!["All"];
        self
    }

    /// Adds one of the API's `DeleteOptions` for which there is no method here; a delete sends its options as a body. One that
    /// has a method fails before it is sent.
    #[doc(alias = "Raw")]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.more.insert(name.into(), value.into());
        self
    }

    /// Sets the time that this request may take, as [`ClientBuilder::request_timeout`](super::ClientBuilder::request_timeout)
    /// says. Default: the client's, which is 60 s unless it was built with another.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        if let Ok(call) = &mut self.call {
            call.timeout = Some(timeout);
        }
        self
    }

    /// Lets the cache learn of this delete from its watch alone. Default: the next cached read sees it.
    pub fn not_to_cache(mut self) -> Self {
        self.to_cache = false;
        self
    }

    async fn send(self) -> Result<Deletion, Error> {
        let Self { client, call, options, to_cache, .. } = self;
        let mut call = call?;
        options.write_to(&mut call)?;
        match client.write(call, to_cache).await {
            Ok((_, answer)) if is_gone(&answer) => Ok(Deletion::Done),
            Ok(_) => Ok(Deletion::Begun),
            Err(error) if error.is_not_found() => Ok(Deletion::NothingThere),
            Err(error) => Err(error),
        }
    }
}

impl<K: 'static> IntoFuture for Delete<K> {
    type Output = Result<Deletion, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A delete of many objects that is sent when it is awaited.
///
/// Cached reads no longer see what went at once: what the answer lists without a finalizer and, for pods, if they get no
/// time to end. The others are there until the watch tells their end.
pub type DeleteAll<K> = Many<K, Deleting>;

/// The options of a [`DeleteAll`] alone.
#[derive(Debug)]
pub struct Deleting {
    options: Options,
    to_cache: bool,
}

impl<K> DeleteAll<K> {
    pub(super) fn new(client: &Client, call: Call) -> Self {
        Self::about(client, call, Deleting { options: Options::of(client), to_cache: true })
    }

    /// What happens to the objects that they own. Default: they are deleted after them.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.verb.options.propagation_policy = Some(propagation);
        self
    }

    /// How long each may take to end, as for [`Delete::grace_period`].
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.verb.options.grace_period_seconds = Some(grace.as_secs());
        self
    }

    /// Goes through everything but deletes nothing. Default: as the client, which deletes.
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

    /// Lets the cache learn of this delete from its watch alone. Default: the next cached read sees it.
    pub fn not_to_cache(mut self) -> Self {
        self.verb.to_cache = false;
        self
    }

    async fn send(self) -> Result<(), Error> {
        let mut call = self.selecting();
        let Self { client, verb: Deleting { options, to_cache }, .. } = self;
        options.write_to(&mut call)?;
        let answer = client.send(call.clone()).await?.into_bytes();
        if to_cache && !call.dry_run && options.propagation_policy == Some(Propagation::Background) {
            let at_once = options.grace_period_seconds == Some(0);
            client.tell_cache_of_deletes(&call, &answer, at_once);
        }
        Ok(())
    }
}

impl<K: 'static> IntoFuture for DeleteAll<K> {
    type Output = Result<(), Error>;
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
