//! Client that reads and writes objects, with server-side apply as the usual way to write.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use controller_runtime::{Client, ObjectKey, client::{Patch, ResultExt}};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use serde_json::json;
//!
//! # let env = kube_envtest::Environment::builder().start().await?;
//! let client = Client::new(env.client(), "guestbook-operator");
//!
//! let mut settings = ConfigMap::default();
//! settings.metadata.namespace = Some("default".to_owned());
//! settings.metadata.name = Some("settings".to_owned());
//! let stored = client.apply(&settings).await?; // creates or updates it
//!
//! let roses = Patch::merge(&json!({ "data": { "theme": "roses" } })).with_version_of(&stored);
//! let key = ObjectKey::new("default", "settings");
//! let changed: Option<ConfigMap> = client.patch(&key, roses).await.optional()?; // None: it does not exist
//!
//! let maps = client.list::<ConfigMap>().in_namespace("default").labels("app=guestbook").limit(10).await?;
//! assert!(maps.items.is_empty());
//!
//! client.delete(&changed.unwrap()).dry_run().await?; // only this version of this object
//! # Ok(())
//! # }
//! ```
//!
//! # Mental model
//!
//! A method of [`Client`] makes a request; the options of the request are methods on it; awaiting it sends it. The request
//! first passes the [`Interceptor`]s, then waits for the client's rate limit, if there is one, and a write asks the
//! [`WriteGate`].
//!
//! A write that was decided from an object that was read applies only to that version of that object: an update, a delete, a
//! [`Patch::between`] two states of it. If the object has changed since, the request fails with a [`Conflict`]. Applies and
//! patches written by hand apply to whichever object has the name.
//!
//! When the API server answers that it is busy (429, or 503 with `Retry-After`), the client waits and sends the request again,
//! at most ten times and for a minute. Each request has a deadline, which includes its repetitions: 60 s, unless the client or
//! the request sets another ([`ClientBuilder::request_timeout`]). A write that exceeds it may or may not have been carried out
//! ([`Error::is_outcome_unknown`]). Cached reads then show the state from before until the watch delivers a change. So the next
//! attempt should read again before it decides. Objects that it creates should have a fixed name instead of a `generateName`,
//! which would create a second object.
//!
//! The reads of this module go to the API server. Cached reads belong to [`Cached`](crate::Cached), a type of its own, so that
//! code shows where data may be stale. A write through this client is visible in the caches at once, provided the response is
//! the object: responses to a write of `scale`, an `eviction` or a `binding` are not.
//!
//! The [`kube::Client`] underneath must not repeat requests. With [`default_retry`](kube::Config::default_retry) on, as in
//! [`kube::Client::try_default`], it would send a create again after a 504, and with a `generateName` create two objects. This
//! client therefore hands it bodies that cannot be sent twice. [`connect`] makes connections without that retry layer, with
//! keepalive, pings and HTTP/2.
//!
//! # Limitations
//!
//! Not supported: requests in protobuf; strategic merge patches computed from two objects; `exec`, logs and port forwarding,
//! for which there is [`Client::kube`].

mod builder;
mod call;
mod config;
mod conflict;
mod deadline;
mod decode;
mod delete;
mod dynamic;
mod ensure;
mod error;
mod exchange;
mod finalizer;
mod gate;
mod interceptor;
mod limiter;
mod making;
mod many;
mod metrics;
mod own_writes;
mod owner;
mod patch;
mod preconditions;
mod rbac;
mod read;
mod requests;
mod result_ext;
mod retry;
mod send_once;
mod status;
mod subresource;
mod throttle;
mod transport;
mod warnings;
mod watch;
mod wrappers;
mod write;

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use self::{
    builder::ClientBuilder,
    call::{Answer, Call, Verb},
    config::{ConfigError, get_config},
    conflict::{Conflict, Expected},
    decode::FieldError,
    delete::{Delete, DeleteAll, Deleting, Deletion, Propagation},
    dynamic::DynamicClient,
    ensure::{Ensured, MutateError},
    error::{Error, ErrorKind},
    finalizer::has_finalizer,
    gate::{PermitError, WriteGate, WritePermit},
    interceptor::{Intercepted, Interceptor, Next},
    many::Many,
    metrics::ClientMetrics,
    owner::{
        BlockOwnerDeletion, OwnerError, has_owner_reference, is_controlled_by, remove_controller_reference,
        remove_owner_reference, set_controller_reference, set_controller_reference_with, set_owner_reference,
    },
    patch::Patch,
    read::{Get, List, Listing, Page},
    result_ext::ResultExt,
    status::{Builtin, Derived, WithStatus},
    subresource::Subresource,
    transport::connect,
    warnings::{Warning, Warnings},
    watch::{Watch, Watching},
    write::{Apply, Change, Create, FieldValidation, Update, Write},
};
use self::{
    builder::Settings,
    making::{APPLY, as_apply, call_for, kind, named, of_status, versioned, with_patch, with_status},
};
pub(crate) use self::{
    call::uncompressed,
    error::describe,
    finalizer::{add_finalizers, without_finalizer},
    own_writes::{Extent, OwnWrites, Presumed, Removed},
    rbac::rule,
    requests::Requests,
};
use crate::object::{DynamicKind, ObjectKey, StaticObject};

/// Reads and writes objects on behalf of one field manager.
///
/// Reads go to the API server; [`Cached`](crate::Cached) reads the cache. Cheap to clone. Methods such as
/// [`Client::confined_to`] return a client with an additional restriction.
///
/// # Example
///
/// ```no_run
/// # async fn example(client: controller_runtime::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::ObjectKey;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut settings = ConfigMap::default();
/// settings.metadata.namespace = Some("default".to_owned());
/// settings.metadata.name = Some("settings".to_owned());
/// client.apply(&settings).await?; // creates or updates it
///
/// assert!(client.get(&ObjectKey::<ConfigMap>::new("default", "settings")).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    settings: Arc<Settings>,
}

impl Client {
    /// Makes a client that writes as `field_manager`, the name that the API server records as owner of the fields it sets.
    pub fn new(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> Self {
        Self::builder(kube, field_manager).build()
    }

    /// Starts a client that writes as `field_manager` and differs from the defaults.
    pub fn builder(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> ClientBuilder {
        ClientBuilder::new(kube, field_manager.into())
    }

    /// The underlying client, for requests that this one does not offer. Write gates, rate limit and interceptors do not apply
    /// to it.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.settings.kube
    }

    /// Reads the current object from the API server; `None` if it does not exist.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone.
    ///
    /// # Errors
    ///
    /// The request failed, or the object does not fit its type.
    pub fn get<K: StaticObject>(&self, key: &ObjectKey<K>) -> Get<K> {
        Get::new(self, call_for(Verb::Get, kind::<K>(), key), K::metadata_api())
    }

    /// Lists the objects of a kind, in all namespaces unless restricted by [`Client::confined_to`] or the options of [`List`].
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone.
    pub fn list<K: StaticObject>(&self) -> List<K> {
        List::new(self, Call::new(Verb::List, kind::<K>()), K::metadata_api())
    }

    /// Creates an object, and returns it as stored.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_already_exists`] if an object of that name exists.
    pub fn create<K: StaticObject>(&self, object: &K) -> Write<K, Create> {
        Write::new(self, self.about(Verb::Create, kind::<K>(), object))
    }

    /// Replaces an object by `object`, a changed copy of the object that was read, and returns it as stored.
    ///
    /// UID and resourceVersion of `object` are preconditions.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if the object has changed since it was read;
    /// [`ErrorKind::NotSent`] if `object` has no resourceVersion, because it was not read.
    pub fn update<K: StaticObject>(&self, object: &K) -> Write<K, Update> {
        let call = self.about(Verb::Update, kind::<K>(), object);
        Write::new(self, call.and_then(|call| versioned(call, object.meta())))
    }

    /// Replaces the status of an object by that of `object`, and leaves the rest of it unchanged. Otherwise like
    /// [`Client::update`].
    pub fn update_status<K, By>(&self, object: &K) -> Write<K, Update>
    where
        K: StaticObject + WithStatus<By>,
    {
        let call = self.about(Verb::Update, kind::<K>(), object).map(of_status);
        Write::new(self, call.and_then(|call| versioned(call, object.meta())))
    }

    /// Applies the object (server-side apply): creates it, or sets the given fields and removes those that this field manager
    /// set before and no longer gives. Fields of other managers stay. Returns the object as stored.
    ///
    /// Build `object` from scratch for each call, not from one that was read: this manager becomes the owner of every field in
    /// it, and takes over fields that other managers own with a different value.
    ///
    /// # Errors
    ///
    /// The request failed, or the object has no name.
    #[doc(alias = "CreateOrUpdate")]
    pub fn apply<K: StaticObject>(&self, object: &K) -> Write<K, Apply> {
        Write::new(self, self.about(Verb::Apply, kind::<K>(), object).and_then(as_apply)).force()
    }

    /// Applies the object's status and nothing else. Returns the object as stored.
    ///
    /// This manager becomes the owner of every field in `status`: leave out fields that others report.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, ObjectKey, client::Error};
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
    ///
    /// let status = DeploymentStatus { ready_replicas: Some(3), ..DeploymentStatus::default() };
    /// client.apply_status(&ObjectKey::<Deployment>::new("demo", "web"), &status).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A kind without a status does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use controller_runtime::{Client, ObjectKey};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn example(client: Client, map: ConfigMap) {
    /// let _ = client.update_status(&map);
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_not_found`] if the object does not exist.
    pub fn apply_status<K, By>(&self, key: &ObjectKey<K>, status: &K::Status) -> Write<K, Apply>
    where
        K: StaticObject + WithStatus<By>,
    {
        let call = call_for(Verb::Apply, kind::<K>(), key);
        Write::new(self, with_status(call, status)).force()
    }

    /// Patches an object, and returns it as stored.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone, unless a
    /// cache of this client's manager holds whole objects of the kind, and must receive the change at once.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_not_found`] if the object does not exist; [`Error::is_conflict`] if the patch is for
    /// another version ([`Patch::between`], [`Patch::with_version_of`]).
    pub fn patch<K: StaticObject>(&self, key: &ObjectKey<K>, patch: Patch) -> Write<K, Change> {
        let mut call = call_for(Verb::Patch, kind::<K>(), key);
        if K::metadata_api() {
            call.accept = read::METADATA;
        }
        Write::new(self, with_patch(call, patch))
    }

    /// Changes the given fields by a JSON merge patch: [`Client::patch`] with [`Patch::merge`].
    pub fn merge_patch<K: StaticObject>(&self, key: &ObjectKey<K>, patch: &Value) -> Write<K, Change> {
        self.patch(key, Patch::merge(patch))
    }

    /// Deletes exactly this object: its UID and resourceVersion are preconditions. Succeeds if the object does not exist any
    /// more.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if the object has changed since it was read, or if another one has taken
    /// its name.
    pub fn delete<K: StaticObject>(&self, object: &K) -> Delete<K> {
        let call = self.about(Verb::Delete, kind::<K>(), object).and_then(named);
        Delete::new(self, call).only(object.meta())
    }

    /// Deletes whichever object has this name. Succeeds if there is none.
    ///
    /// # Errors
    ///
    /// The request failed.
    pub fn delete_key<K: StaticObject>(&self, key: &ObjectKey<K>) -> Delete<K> {
        Delete::new(self, Ok(call_for(Verb::Delete, kind::<K>(), key)))
    }

    /// Deletes the objects of a kind, in all namespaces unless restricted by [`Client::confined_to`] or the options of
    /// [`DeleteAll`].
    #[doc(alias = "DeleteAllOf")]
    pub fn delete_all<K: StaticObject>(&self) -> DeleteAll<K> {
        DeleteAll::new(self, Call::new(Verb::DeleteCollection, kind::<K>()))
    }

    /// Watches the objects of a kind, starting after a resourceVersion, for example that of a [`Page`]. In all namespaces
    /// unless restricted by [`Client::confined_to`] or the options of [`Watch`].
    #[doc(alias = "WithWatch")]
    pub fn watch<K: StaticObject>(&self, resource_version: &str) -> Watch<K> {
        let mut call = Call::new(Verb::Watch, kind::<K>());
        if K::metadata_api() {
            call.accept = read::METADATA;
        }
        Watch::new(self, call, resource_version)
    }

    /// A subresource of the object: `scale`, `eviction`, `token`, …
    #[must_use]
    pub fn subresource<K: StaticObject>(&self, key: &ObjectKey<K>, name: &str) -> Subresource {
        Subresource::new(self, call_for(Verb::Get, kind::<K>(), key), name)
    }

    /// Looks up a kind in the API server's discovery. `group` is empty for the core group.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_not_served`] if there is no such kind.
    pub async fn discover(&self, group: &str, version: &str, kind: &str) -> Result<DynamicKind, Error> {
        let wanted = kube::core::GroupVersionKind::gvk(group, version, kind);
        // Discovery is not a call; this one only names the request in errors.
        let call = || Call::new(Verb::Get, Arc::new(DynamicKind::namespaced(group, version, kind, kind)));
        let timeout = self.settings().timeout;
        let found = tokio::time::timeout(timeout, kube::discovery::pinned_kind(self.kube(), &wanted)).await;
        let Ok(found) = found else { return Err(exchange::out_of_time(self.settings(), &call(), timeout)) };
        found.map(DynamicKind::from).map_err(|error| {
            let call = call();
            match error {
                kube::Error::Api(status) => Error::refused(&call, *status, None),
                kube::Error::Discovery(_) => Error::make(&call, ErrorKind::NotServed, None),
                error => Error::make(&call, ErrorKind::NoAnswer(describe(&error)), None).caused_by(error),
            }
        })
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sends a call through the interceptors.
    async fn send(&self, mut call: Call) -> Result<Answer, Error> {
        self.confine(&mut call)?;
        Next { client: self.clone(), passed: 0 }.run(call).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("field_manager", &self.settings.field_manager).finish_non_exhaustive()
    }
}
