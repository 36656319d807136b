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

use super::{
    Call, Client, Error, ErrorKind, Verb,
    call::JSON,
    decode::decode,
    own_writes::{Outcome, gone_of},
    read::METADATA,
};

/// A write that is sent when it is awaited, and returns what the API server stored.
///
/// Its methods are the options of this one request; `V` says which verb it is and so which options there are. Nothing is
/// sent before the first poll. Dropping the future gives up waiting: whether the server carries the write out is unknown
/// then.
///
/// ```no_run
/// # use controller_runtime::{Client, client::Error};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(client: Client, map: ConfigMap) -> Result<(), Error> {
/// let stored = client.create(&map).await?;
/// let would_be = client.apply(&map).field_manager("importer").dry_run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when it is awaited"]
pub struct Write<T, V> {
    client: Client,
    call: Result<Call, Error>,
    dry_run: bool,
    field_manager: Arc<str>,
    field_validation: Option<FieldValidation>,
    force: bool,
    to_cache: bool,
    types: PhantomData<fn() -> (T, V)>,
}

/// The verb of a [`Write`] that makes an object.
#[derive(Debug)]
pub enum Create {}

/// The verb of a [`Write`] that replaces an object.
#[derive(Debug)]
pub enum Update {}

/// The verb of a [`Write`] that changes fields.
#[derive(Debug)]
pub enum Change {}

/// The verb of a [`Write`] that says how fields should be.
#[derive(Debug)]
pub enum Apply {}

/// What the API server does with fields that the kind does not have, and with fields given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// It drops them.
    Ignore,
    /// It drops them and warns: the API server's default.
    Warn,
    /// It refuses the request.
    Strict,
}

impl FieldValidation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl<T, V> Write<T, V> {
    pub(super) fn new(client: &Client, call: Result<Call, Error>) -> Self {
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

    /// Goes through everything but stores nothing. Default: as the client, which stores.
    #[doc(alias = "DryRunAll")]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Writes in this name. Default: the client's.
    #[doc(alias = "FieldOwner")]
    pub fn field_manager(mut self, manager: impl Into<Arc<str>>) -> Self {
        self.field_manager = manager.into();
        self
    }

    /// What to do with unknown fields. Default: as the client; if that says nothing, the API server warns, and
    /// refuses them in an apply.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Adds a query parameter for which there is no option here. One that the client sends itself fails before it is sent.
    #[doc(alias = "Raw")]
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        if let Ok(call) = &mut self.call {
            call.push_more(name, value);
        }
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

    /// Lets the cache learn of this write from its watch alone. Default: the next cached read sees it.
    pub fn not_to_cache(mut self) -> Self {
        self.to_cache = false;
        self
    }
}

impl<T> Write<T, Apply> {
    pub(super) fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Leaves fields to others who own them with another value: the request fails with a conflict that names the
    /// fields. Default: this manager takes them over, as controllers should.
    pub fn without_force(mut self) -> Self {
        self.force = false;
        self
    }
}

impl<T: DeserializeOwned, V> Write<T, V> {
    async fn send(self) -> Result<T, Error> {
        let Self { client, call, dry_run, field_manager, field_validation, force, to_cache, .. } = self;
        let mut call = call?;
        if dry_run {
            call.dry_run = true;
            call.push("dryRun", "All");
        }
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
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Client {
    /// Sends a write, and lets the cache know what came of it.
    pub(super) async fn write(&self, mut call: Call, to_cache: bool) -> Result<(Call, Bytes), Error> {
        let own_writes = self.settings().own_writes.as_ref().filter(|_| to_cache && !call.dry_run);
        if call.accept == METADATA && own_writes.is_some_and(|known| known.needs_whole(&call)) {
            call.accept = JSON; // the caller takes the metadata out of it
        }
        let before = own_writes.filter(|_| call.verb == Verb::Delete).and_then(|known| known.reached(&call));
        let body = self.send(call.clone()).await?.into_bytes();
        if let Some(own_writes) = own_writes {
            match Outcome::of(&call, &body) {
                Outcome::Wrote(extent) => own_writes.wrote(&call, &body, extent),
                Outcome::Deleted(object) => own_writes.deleted(&call, &object, before),
                Outcome::Nothing => {}
            }
        }
        Ok((call, body))
    }

    /// Lets the cache know what went with a delete of many objects.
    pub(super) fn tell_cache_of_deletes(&self, call: &Call, answer: &Bytes, at_once: bool) {
        if let Some(own_writes) = &self.settings().own_writes {
            for object in gone_of(call, answer, at_once) {
                own_writes.presumed_deleted(call, &object);
            }
        }
    }
}

pub(super) fn decode_answer<T: DeserializeOwned>(call: &Call, body: &[u8]) -> Result<T, Error> {
    decode(body).map_err(|error| Error::make(call, ErrorKind::Undecodable(error), None))
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
