//! Reading and writing objects: server-side apply first, every option on the request that it is for.
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
//! let stored = client.apply(&settings).await?; // creates it, or makes it so
//!
//! let roses = Patch::merge(&json!({ "data": { "theme": "roses" } })).with_version_of(&stored);
//! let key = ObjectKey::new("default", "settings");
//! let changed: Option<ConfigMap> = client.patch(&key, roses).await.optional()?; // None: it is gone
//!
//! let maps = client.list::<ConfigMap>().in_namespace("default").labels("app=guestbook").limit(10).await?;
//! assert!(maps.items.is_empty());
//!
//! client.delete(&changed.unwrap()).dry_run().await?; // only if it is this version of this object still
//! # Ok(())
//! # }
//! ```
//!
//! # Mental model
//!
//! A method of [`Client`] makes a request; its options are methods of the request; awaiting it sends it. On its way it
//! passes the [`Interceptor`]s, waits for its turn if there is a rate limit, and, if it writes, asks the [`WriteGate`].
//! What is decided on an object that was read is done to that object in that version: an update, a delete, a
//! [`Patch::between`] two states of it. If it has changed, the request fails with a [`Conflict`]. Applies and patches written
//! by hand are for whatever has the name.
//!
//! An answer that says to come later (429, 503 with `Retry-After`) is waited for, ten times and a minute at most. Each
//! request has a deadline, its repetitions included: 60 s, unless the client or the request has another
//! ([`ClientBuilder::request_timeout`]). A write that is out of time may have been carried out or not
//! ([`Error::is_outcome_unknown`]). Cached reads go on to show what is known, and then what the watch delivers: the object may
//! come, change or go later. So the next attempt decides on what it reads, and creates under a name of its choice rather than
//! a `generateName`.
//!
//! Reads here go to the API server. Cached reads are those of [`Cached`](crate::Cached), which is another type so that
//! it shows where something may be stale. What is written here is visible there at once, if the answer is the object: those to
//! a write of `scale`, an `eviction` or a `binding` are not.
//!
//! Nothing below repeats requests: a [`kube::Client`] whose [`default_retry`](kube::Config::default_retry) is on, as that of
//! [`kube::Client::try_default`] is, would send a create again after a 504, and with a `generateName` create twice. A client
//! here hands it bodies that cannot be sent a second time. [`connect`] makes connections without such a layer, with
//! keepalive, pings and HTTP/2.
//!
//! # What is not here
//!
//! Requests in protobuf; strategic merge patches computed from two objects; `exec`, logs and port forwarding, for which
//! there is [`Client::kube`].

mod builder;
mod call;
mod config;
mod conflict;
mod deadline;
mod decode;
mod delete;
mod dynamic;
mod dynamic_kind;
mod ensure;
mod error;
mod exchange;
mod finalizer;
mod finalizers;
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
    dynamic_kind::DynamicKind,
    ensure::{Ensured, MutateError},
    error::{Error, ErrorKind},
    finalizer::has_finalizer,
    finalizers::{DuplicateFinalizer, FinalizeError, Finalized, Finalizer, Finalizers},
    gate::{NoPermit, WriteGate, WritePermit},
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
    own_writes::{Extent, OwnWrites, Presumed, Removed},
    rbac::rule,
};
use crate::object::{Object, ObjectKey, StaticObject};

/// Reads and writes objects in the name of one field manager.
///
/// Reads go to the API server; reads of the cache are [`Cached`](crate::Cached)'s. Cheap to clone. Methods such as
/// [`Client::confined_to`] give a client that does the same under a restriction.
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
/// client.apply(&settings).await?; // creates it, or makes it so
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
    /// A client that writes as `field_manager`, the name under which the API server notes who set which field.
    pub fn new(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> Self {
        Self::builder(kube, field_manager).build()
    }

    /// Begins a client that writes as `field_manager` and differs from the defaults.
    pub fn builder(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> ClientBuilder {
        ClientBuilder::new(kube, field_manager.into())
    }

    /// The client below, for what this one does not offer. It knows no gate, limit or interceptor.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.settings.kube
    }

    /// The object as the API server has it now; `None` if there is none.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone.
    ///
    /// # Errors
    ///
    /// The request failed, or the object does not fit its type.
    pub fn get<K: StaticObject>(&self, key: &ObjectKey<K>) -> Get<K> {
        Get::new(self, call_for(Verb::Get, kind::<K>(), key), K::metadata_api())
    }

    /// The objects of a kind, in all namespaces unless told otherwise.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone.
    pub fn list<K: StaticObject>(&self) -> List<K> {
        List::new(self, Call::new(Verb::List, kind::<K>()), K::metadata_api())
    }

    /// Creates an object, and returns it as stored.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_already_exists`] if there is one under that name.
    pub fn create<K: StaticObject>(&self, object: &K) -> Write<K, Create> {
        Write::new(self, self.about(Verb::Create, kind::<K>(), object))
    }

    /// Replaces an object by `object`, which was read and changed, and returns it as stored.
    ///
    /// Uid and version of `object` are preconditions.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if `object` does not come from the present version;
    /// [`ErrorKind::NotSent`] if it has no version, because it was not read.
    pub fn update<K: StaticObject>(&self, object: &K) -> Write<K, Update> {
        let call = self.about(Verb::Update, kind::<K>(), object);
        Write::new(self, call.and_then(|call| versioned(call, object.meta())))
    }

    /// Replaces the status of an object by that of `object`, and leaves the rest as it is. Otherwise as
    /// [`Client::update`].
    pub fn update_status<K, By>(&self, object: &K) -> Write<K, Update>
    where
        K: StaticObject + WithStatus<By>,
    {
        let call = self.about(Verb::Update, kind::<K>(), object).map(of_status);
        Write::new(self, call.and_then(|call| versioned(call, object.meta())))
    }

    /// Makes the object be as given: creates it, or sets the given fields and removes those this manager set before
    /// and no longer gives. Fields of others stay. Returns the object as stored.
    ///
    /// Build the object anew for each call: every field in it becomes this manager's, taken over from others if they
    /// hold it with another value.
    ///
    /// # Errors
    ///
    /// The request failed, or the object has no name.
    #[doc(alias = "CreateOrUpdate")]
    pub fn apply<K: StaticObject>(&self, object: &K) -> Write<K, Apply> {
        Write::new(self, self.about(Verb::Apply, kind::<K>(), object).and_then(as_apply)).force()
    }

    /// Makes the object's status be as given, and nothing else. Returns the object as stored.
    ///
    /// Every field of `status` becomes this manager's: leave out what others say.
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
    /// What has no status does not compile:
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
    /// The request failed; [`Error::is_not_found`] if the object is gone.
    pub fn apply_status<K, By>(&self, key: &ObjectKey<K>, status: &K::Status) -> Write<K, Apply>
    where
        K: StaticObject + WithStatus<By>,
    {
        let call = call_for(Verb::Apply, kind::<K>(), key);
        Write::new(self, with_status(call, status)).force()
    }

    /// Changes an object by a patch, and returns it as stored.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone, unless a
    /// cache of this client's manager reads more of the kind, and is to see the change at once.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_not_found`] if the object is gone; [`Error::is_conflict`] if the patch is for
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

    /// Deletes this very object: its uid and version are preconditions. One that is gone already is no error.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if the object has changed since it was read, or if another one has taken
    /// its name.
    pub fn delete<K: StaticObject>(&self, object: &K) -> Delete<K> {
        let call = self.about(Verb::Delete, kind::<K>(), object).and_then(named);
        Delete::new(self, call).only(object.meta())
    }

    /// Deletes whatever object has this name. One that is gone already is no error.
    ///
    /// # Errors
    ///
    /// The request failed.
    pub fn delete_key<K: StaticObject>(&self, key: &ObjectKey<K>) -> Delete<K> {
        Delete::new(self, Ok(call_for(Verb::Delete, kind::<K>(), key)))
    }

    /// Deletes the objects of a kind, in all namespaces unless told otherwise.
    #[doc(alias = "DeleteAllOf")]
    pub fn delete_all<K: StaticObject>(&self) -> DeleteAll<K> {
        DeleteAll::new(self, Call::new(Verb::DeleteCollection, kind::<K>()))
    }

    /// The changes of the objects of a kind after a version: that of a [`Page`], say. In all namespaces unless told
    /// otherwise.
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

    /// Asks the API server what it knows of a kind: `group` is empty for the core group.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_not_served`] if there is no such kind.
    pub async fn discover(&self, group: &str, version: &str, kind: &str) -> Result<DynamicKind, Error> {
        let wanted = kube::core::GroupVersionKind::gvk(group, version, kind);
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

    /// Sends a call on its way past the interceptors.
    async fn send(&self, mut call: Call) -> Result<Answer, Error> {
        self.confine(&mut call)?;
        Next { client: self.clone(), passed: 0 }.run(call).await
    }
}

/// Namespace and name for a message, as far as they are set.
pub(crate) fn name_of<K: Object>(object: &K) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("(without a name)");
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("field_manager", &self.settings.field_manager).finish_non_exhaustive()
    }
}
