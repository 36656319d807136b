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
//! A method of [`Client`] makes a request, methods of the request set its options, and `.await` sends it. The request first
//! passes the [`Interceptor`]s, and then waits for the client's rate limit, if there is one. The [`WriteGate`] checks a write
//! before it is sent; that of a manager refuses writes while this process is not the leader.
//!
//! An update, a delete and a [`Patch::between`] two states take an object that was read before, and apply only to the same
//! version (`uid` and `resourceVersion`). If the object has changed since it was read, the request fails with a [`Conflict`]. An
//! apply, or a patch written by hand, applies to any object of the name.
//!
//! The client waits and repeats a request if the API server answers with `Retry-After` and the code 429 or 503, or, for a read,
//! another 5xx code. It repeats a request at most ten times and for a minute. Each request has a deadline, which includes these
//! retries: 60 s, unless the client or the request sets another ([`ClientBuilder::request_timeout`]).
//!
//! If a write exceeds its deadline, it may or may not have been carried out ([`ClientError::is_outcome_unknown`]), and cached reads
//! show the previous state until the watch delivers the change. So the next attempt should read the object again before it
//! decides, and should create objects with a fixed name: with a `generateName` it would create a second object.
//!
//! A [`Client`] reads from the API server, and a [`Cached`](crate::Cached) reads from a cache. The two are separate types, so
//! that the code shows where data may be stale. A write through the client of a manager is visible in the manager's caches at
//! once, provided the response is the object. Responses to writes of `scale`, `eviction` and `binding` are not the object.
//!
//! The [`kube::Client`] underneath must not repeat requests. With [`default_retry`](kube::Config::default_retry) on, as in
//! [`kube::Client::try_default`], it would send a create again after a 504, and with a `generateName` create two
//! objects. This client therefore sends bodies that `kube` cannot copy, so that the retry layer cannot repeat them.
//! [`connect`] makes connections without that retry layer, with keepalive, pings and HTTP/2.
//!
//! # Limitations
//!
//! Not supported: requests in protobuf; strategic merge patches computed from two objects; `exec`, logs and port forwarding
//! (use [`Client::kube`]).
//!
//! # Folders of the source, in reading order
//!
//! Each folder imports only from those before it.
//!
//! 1. `connection`: kubeconfig, TLS, pools of connections.
//! 2. `transport`: a request as a value (`call`), and the steps that it passes: interceptors, write gate, limits, retries, metrics.
//! 3. `requests`: reads, writes, deletes and watches, and their options.
//! 4. `helpers`: create-or-update, finalizers, owner references, retries on conflicts.

mod connection;
pub(crate) mod helpers;
mod requests;
pub(crate) mod transport;

#[cfg(feature = "clap")]
pub(crate) use self::connection::kubeconfig::runs_in_pod;
pub use self::{
    connection::{
        connect,
        kubeconfig::{ConfigError, get_config},
    },
    helpers::{
        ensure::{Ensured, MutateError},
        owner_reference::{
            BlockOwnerDeletion, has_owner_reference, remove_controller_reference, remove_owner_reference,
            set_controller_reference_with, set_owner_reference,
        },
        result_ext::ResultExt,
    },
    requests::{
        delete::{Delete, DeleteAll, Deleting, Deletion, Propagation},
        dynamic::DynamicClient,
        many::Many,
        patch::Patch,
        read::{Get, List, Listing, Page},
        status::{Builtin, Derived, WithStatus},
        subresource::Subresource,
        watch::{Watch, Watching},
        write::{Apply, Change, Create, Update, Write},
    },
    transport::{
        call::{Answer, Call, FieldValidation},
        client_builder::ClientBuilder,
        client_metrics::ClientMetrics,
        conflict::{Conflict, Expected},
        decode::FieldError,
        error::ErrorKind,
        interceptor::{Intercepted, Interceptor, Next},
        run_record::RunWrite,
        warnings::{Warning, Warnings},
        write_gate::{PermitError, WriteGate, WritePermit},
    },
};
pub(crate) use self::{
    helpers::finalizer_list::{add_finalizers, has_finalizer, without_finalizer},
    requests::object_requests::ObjectRequests,
    transport::{
        call::uncompressed,
        call_observer::{CallObserver, Throttling},
        client::Client,
        declaration_check::DeclarationCheck,
        error::{ClientError, describe},
        own_writes::{Extent, OwnWrites, PresumedDeletion, ReportedDeletion},
        rbac::{RefusedRight, rule},
        run_record::{RecordedWrite, RunRecord},
        written_object::WrittenObject,
    },
};
