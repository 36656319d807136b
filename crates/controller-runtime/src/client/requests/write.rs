//! Writes of one object.

use std::{
    borrow::Cow,
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    client::transport::{
        call::{Call, FieldValidation, JSON, METADATA, Verb},
        client::Client,
        decode::decode,
        error::{ClientError, ErrorKind},
        own_writes::{Extent, OwnWrites, Termination, WriteOutcome, name_in, presumed_deletions},
    },
    object::DynamicKind,
};

/// A write, sent when it is awaited, which returns the object as stored.
///
/// Its methods are the options of this request; the type `V` is its verb and determines which options there are. The
/// request is sent at the first poll. Dropping the future stops waiting for the response; it is then unknown whether the server
/// carries the write out.
///
/// ```no_run
/// # use controller_runtime::{Client, ClientError};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(client: Client, map: ConfigMap) -> Result<(), ClientError> {
/// let stored = client.create(&map).await?;
/// let would_be = client.apply(&map).field_manager("importer").dry_run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when it is awaited"]
pub struct Write<T, V> {
    client: Client,
    call: Result<Call, ClientError>,
    dry_run: bool,
    field_manager: Arc<str>,
    field_validation: Option<FieldValidation>,
    force: bool,
    to_cache: bool,
    types: PhantomData<fn() -> (T, V)>,
}

/// Verb of a [`Write`] that creates an object.
#[derive(Debug)]
pub enum Create {}

/// Verb of a [`Write`] that replaces an object.
#[derive(Debug)]
pub enum Update {}

/// Verb of a [`Write`] that patches an object.
#[derive(Debug)]
pub enum Change {}

/// Verb of a [`Write`] that applies fields (server-side apply).
#[derive(Debug)]
pub enum Apply {}

impl<T, V> Write<T, V> {
    pub(in crate::client) fn new(client: &Client, call: Result<Call, ClientError>) -> Self {
        let settings = client.settings();
        Self {
            client: client.clone(),
            call,
            dry_run: settings.dry_run,
            field_manager: Arc::clone(&settings.field_manager),
            field_validation: settings.field_validation,
            force: false,
            to_cache: true,
            types: PhantomData,
        }
    }

    /// Only validates the request; nothing is stored. Default: the client's setting, which is off.
    #[doc(alias = "DryRunAll")]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the field manager. Default: the client's.
    #[doc(alias = "FieldOwner")]
    pub fn field_manager(mut self, manager: impl Into<Arc<str>>) -> Self {
        self.field_manager = manager.into();
        self
    }

    /// Sets the handling of unknown fields. Default: the client's; if that has none, the API server warns, and refuses them in
    /// an apply.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Adds a query parameter for which there is no option here. A parameter that the client sets itself makes the request fail
    /// before it is sent.
    #[doc(alias = "Raw")]
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        if let Ok(call) = &mut self.call {
            call.push_more(name, value);
        }
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

    /// Shows the write in the cache only when the watch delivers it. Default: the next cached read reflects the write.
    pub fn not_to_cache(mut self) -> Self {
        self.to_cache = false;
        self
    }
}

impl<T> Write<T, Apply> {
    pub(in crate::client) fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Does not take over fields that another manager owns with a different value: the request then fails with a conflict that
    /// names them. Default: this manager takes them over, as is usual for controllers.
    pub fn without_force(mut self) -> Self {
        self.force = false;
        self
    }
}

impl<T: DeserializeOwned, V> Write<T, V> {
    async fn send(self) -> Result<T, ClientError> {
        let Self { client, call, dry_run, field_manager, field_validation, force, to_cache, .. } = self;
        let mut call = call?;
        if dry_run {
            call.dry_run = true;
            call.push("dryRun", "All");
        }
        // Only an apply sets `force`; the API server refuses the parameter for other verbs.
        if force {
            call.push("force", "true");
        }
        call.push("fieldManager", &*field_manager);
        if let Some(validation) = field_validation {
            call.push("fieldValidation", validation.as_str());
        }
        let (call, body) = client.write(call, to_cache).await?;
        decode_answer(&call, &body)
    }
}

impl<T, V> IntoFuture for Write<T, V>
where
    T: DeserializeOwned + Send + 'static,
    V: 'static,
{
    type Output = Result<T, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// Deadline for reading a written object in another API version that is cached.
const OTHER_VERSION_WITHIN: Duration = Duration::from_secs(5);

impl Client {
    /// Sends a write, and notifies the caches of its outcome.
    pub(in crate::client) async fn write(
        &self,
        mut call: Call,
        to_cache: bool,
    ) -> Result<(Call, Bytes), ClientError> {
        let own_writes = self.settings().own_writes.as_ref().filter(|_| to_cache && !call.dry_run);
        // A cache of whole objects cannot take a write from metadata alone, so ask for the whole object.
        if call.accept == METADATA && own_writes.is_some_and(|known| known.needs_whole(&call)) {
            call.accept = JSON; // the caller extracts the metadata
        }
        // Read before the request is sent: events up to this version are from before the deletion.
        let before = own_writes.filter(|_| call.verb == Verb::Delete).and_then(|known| known.reached(&call));
        let body = self.send(call.clone()).await?.into_bytes();
        if let Some(own_writes) = own_writes {
            match WriteOutcome::of(&call, &body) {
                WriteOutcome::Written(extent) => {
                    own_writes.record_write(&call, &body, extent);
                    self.read_in_other_versions(&call, &body, &**own_writes).await;
                }
                WriteOutcome::Deleted(object) => own_writes.record_deletion(&call, &object, before),
                WriteOutcome::Nothing => {}
            }
        }
        Ok((call, body))
    }

    /// Reads a written object once more in each other API version in which its kind is cached, and notifies the caches.
    ///
    /// The write itself has succeeded. If such a read fails, the caches of that version show the write when their watch reports
    /// it.
    async fn read_in_other_versions(&self, call: &Call, answer: &Bytes, own_writes: &dyn OwnWrites) {
        let others = own_writes.other_versions(call);
        if others.is_empty() {
            return;
        }
        let Some(name) = call.name.clone().or_else(|| name_in(answer)) else { return };
        for (resource, extent) in others {
            let is_namespaced = call.kind.is_namespaced;
            let mut get = Call::new(Verb::Get, Arc::new(DynamicKind { resource, is_namespaced }));
            (get.namespace, get.name) = (call.namespace.clone(), Some(name.clone()));
            if extent == Extent::Metadata {
                get.accept = METADATA;
            }
            // This timeout covers the whole read, because the deadline of a request covers neither interceptors nor the
            // rate limit.
            let reason = match timeout(OTHER_VERSION_WITHIN, self.send(get.clone())).await {
                Ok(Ok(object)) => {
                    own_writes.record_write(&get, &object.into_bytes(), extent);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("it was not read within {} s", OTHER_VERSION_WITHIN.as_secs()),
            };
            let (subject, version) = (get.subject(), &get.kind.resource.api_version);
            tracing::debug!(
                subject,
                version,
                "the caches of this API version show an own write only when their watch reports it: {reason}"
            );
        }
    }

    /// Notifies the caches of objects that a bulk deletion most likely removed.
    pub(in crate::client) fn record_presumed_deletions(
        &self,
        call: &Call,
        answer: &Bytes,
        termination: Termination,
    ) {
        if let Some(own_writes) = &self.settings().own_writes {
            for deletion in presumed_deletions(call, answer, termination) {
                own_writes.record_presumed_deletion(call, &deletion);
            }
        }
    }
}

pub(in crate::client) fn decode_answer<T: DeserializeOwned>(
    call: &Call,
    body: &[u8],
) -> Result<T, ClientError> {
    decode(body).map_err(|error| ClientError::make(call, ErrorKind::Undecodable(error), None))
}

impl<T, V> fmt::Debug for Write<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write")
            .field("call", &self.call)
            .field("dry_run", &self.dry_run)
            .field("field_manager", &self.field_manager)
            .field("field_validation", &self.field_validation)
            .finish_non_exhaustive()
    }
}
