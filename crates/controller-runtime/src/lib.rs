//! Kubernetes controllers in Rust, with the concepts of Go's `controller-runtime`.
//!
//! ```
//! use controller_runtime::{Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! struct PrintNames;
//!
//! impl Reconciler for PrintNames {
//!     type Request = ObjectKey<ConfigMap>;
//!
//!     async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
//!         println!("{key}");
//!         Ok(Action::done())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = kube_envtest::Environment::builder().start().await?;
//! let manager = Manager::new(env.client(), ManagerOptions::new("print-names")); // on a cluster: Manager::from_config
//! Builder::managed_by(&manager).for_kind::<ConfigMap>().complete(PrintNames)?;
//!
//! let ready = manager.ready();
//! manager.run(async { ready.await.unwrap_or(()) }).await?; // in an operator: run_until_signal()
//! # Ok(())
//! # }
//! ```
//!
//! # Mental model
//!
//! A cache watches a kind, and makes each change of an object an [`Event`] with the old and the new state (each a [`Lazy`], decoded
//! on first access). A [`Predicate`] passes or drops the event. An [`EventHandler`] maps it to requests: the [`ObjectKey`] of the
//! object or of its owner, or the requests that a mapping function returns. The [`workqueue`] holds each request at most once and
//! passes it to a worker, which calls the [`Reconciler`]. The reconciler reads from caches ([`Cached`]), writes through the
//! [`Client`], and returns an [`Action`] or an error. This result determines when the request runs again.
//!
//! A [`Manager`] holds the caches and controllers and runs them. A [`Builder`] connects sources, predicates and handlers to a
//! reconciler.
//!
//! # Modules, in reading order
//!
//! [`reconcile`] (the trait to implement), [`source`], [`predicate`] and [`handler`] (from a change to a request),
//! [`controller`] and [`manager`] (options and lifecycle), [`cache`] and [`client`] (reading and writing), [`leader_election`],
//! [`webhook`] (defaults, validation and versions of a kind), [`metrics`], [`health`], [`serving`], [`workqueue`].
//!
//! # Features
//!
//! All features are off by default:
//!
//! - `clap` adds `manager::Flags`, the command-line flags of an operator, and `operator::Operator`, the commands of its
//!   program: run the operator, and print its manifests, rights and CustomResourceDefinitions. It includes `manifests`.
//! - `gzip` requests compressed responses from the API server. For clients that you create yourself, use the feature `gzip` of
//!   `kube`. The API server compresses responses of more than 128 KiB; watches are never compressed. Compression saves time if the
//!   API server is far away. Within a cluster it costs more time on both sides than it saves on the network. So, unlike in
//!   client-go, it is off by default.
//! - `http2` adds `serving::MetricsServerOptions::enable_http2`. The client uses HTTP/2 without this feature.
//! - `logging` adds the module `logging`: levels, a filter and JSON for the log of an operator, and flags for them.
//! - `manifests` adds the module `manifests`: the objects that deploy an operator, computed from its registrations.
//! - `opentelemetry` adds the module `telemetry`: a layer that exports the spans of reconciles, and links the attempts of a
//!   request.
//!
//! # Logs and traces
//!
//! The feature `logging` sets up the log of an operator. Failed reconciles are logged at `ERROR`, except failures that a retry
//! usually cures: a conflict, a write that was refused or interrupted because the process does not hold the lease, and a read of a
//! cache that is not synced. Of these, the first eight in a row for a request are logged at `DEBUG`.
//!
//! All logs and spans go through `tracing`. Each reconcile is a span with controller, request, `reconcileID` and attempt. These
//! fields have the names of the log fields of Go's controller-runtime. The feature `opentelemetry` exports the spans: see
//! `docs/book/src/guides/opentelemetry.md`.
//!
//! # Cancellation
//!
//! Every future of this crate may be dropped. Dropping the future of [`Manager::run`] stops its controllers at their next
//! `.await`, as a crash would, and leaves no task behind. The manager drops a reconcile at an `.await` if the reconcile exceeds its
//! timeout, or still runs at the end of the manager's shutdown timeout.
//!
//! # Defaults
//!
//! | Setting | Default |
//! |---|---|
//! | concurrent reconciles of a controller | 16 |
//! | back-off of a failing request | 5 ms, doubling to 1000 s |
//! | retries of all requests of a controller | 100 at once, then 10 a second |
//! | timeout of a reconcile | none |
//! | a reconcile that panics | counts as a failure and is retried |
//! | leader election; metrics server and health server | none |
//! | time until the caches, and each source of a controller, must be synced at the start | 2 minutes |
//! | sources of a controller on a standby | not running |
//! | cached objects | stored compressed, except recently changed ones; those read more than once between two changes are also kept decoded, up to an estimated 64 MiB |
//! | resyncs, which pass every cached object to the handlers again | none |
//! | time that running reconciles have to finish when the manager stops | 30 seconds |
//!
//! # Limitations
//!
//! Parts of controller-runtime for Go that are missing:
//!
//! - profiles (`PprofBindAddress`): an extra handler of the metrics server can serve them;
//! - custom cache implementations (`NewCache`), and `GetControllerOptions`: an option of the manager applies to each
//!   controller that does not set the option itself;
//! - locks other than leases (`LeaderElectionResourceLockInterface`);
//! - a scheme and a REST mapper: kinds are types, or are found by [`Client::discover`];
//! - a fake client: `kube-envtest` has an API server for tests;
//! - the flag `--master`, and zap's flags other than level and encoder.
//!
//! [`cache`], [`client`] and [`metrics`] list their own limitations. Like Go's controller-runtime, this crate neither discovers
//! clusters ([`Manager::add_cluster`] adds one) nor distributes objects among processes.
//!
//! Your binary chooses the version feature of `k8s-openapi` (such as `v1_36`) and the TLS stack of `kube`.

mod brief;
mod builder;
pub mod cache;
pub mod client;
mod conditions;
pub mod controller;
mod error;
pub mod finalizer;
pub mod findings;
pub mod handler;
pub mod health;
mod host;
mod json;
pub mod leader_election;
#[cfg(feature = "logging")]
pub mod logging;
pub mod manager;
#[cfg(feature = "manifests")]
pub mod manifests;
pub mod metrics;
mod object;
#[cfg(feature = "clap")]
pub mod operator;
mod ordered_watch;
mod pace;
mod panics;
pub mod predicate;
pub mod reconcile;
mod recorder;
mod request_queue;
pub mod rights;
mod runnable;
pub mod serving;
pub mod source;
#[cfg(feature = "opentelemetry")]
pub mod telemetry;
pub mod webhook;

pub use kube_workqueue as workqueue;

pub use self::{
    builder::{Builder, ControllerBuilder, ForKind, ForRequests},
    cache::{
        objects::{
            decode_error::DecodeError,
            event::{Event, MetaEvent},
            lazy::Lazy,
        },
        read::cached::Cached,
        state::read_error::ReadError,
    },
    client::{
        helpers::{
            finalizer_list::has_finalizer,
            owner_reference::{OwnerError, is_controlled_by, set_controller_reference},
        },
        transport::{client::Client, error::ClientError},
    },
    conditions::{conditions_schema, set_condition},
    error::BoxError,
    handler::{
        event_handler::{EventHandler, ForObject},
        for_owner::ForOwner,
        map::{MapFn, MapMeta, TryMapFn, TryMapMeta},
    },
    manager::{manager_handle::Manager, options::ManagerOptions},
    object::{
        DynamicKind, DynamicNamespace, KindInfo, MetadataOf, NamespaceOf, Object, ObjectKey, OwnableBy,
        RuntimeKind, Scope, StaticObject, TypedObject, TypedRef,
    },
    predicate::event_predicate::Predicate,
    reconcile::{
        action::Action, context::Context, error::ReconcileError, object_reconciler::ObjectReconciler,
        reconciler::Reconciler,
    },
    recorder::{EventReport, Recorder},
    request_queue::Enqueue,
    rights::verb::Verb,
    source::{dyn_source::Source, kind::Kind, owns::Owns},
};

/// Compiles the examples of `docs/book/src/guides/opentelemetry.md`.
#[cfg(all(doctest, feature = "opentelemetry"))]
#[doc = include_str!("../../../docs/book/src/guides/opentelemetry.md")]
struct OpenTelemetry;

/// Compiles the examples of `docs/book/src/guides/rights.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/book/src/guides/rights.md")]
struct RightsGuide;

/// Compiles the examples of `docs/book/src/migration/from-kube-rs.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/book/src/migration/from-kube-rs.md")]
struct FromKubeRs;

/// Compiles the examples of `docs/book/src/migration/from-controller-runtime.md`, including those with command-line flags.
#[cfg(all(doctest, feature = "clap"))]
#[doc = include_str!("../../../docs/book/src/migration/from-controller-runtime.md")]
struct FromControllerRuntime;

/// Compiles and runs the examples of `docs/book/src/guides/validation.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/book/src/guides/validation.md")]
struct ValidationGuide;

/// Compiles the examples of `docs/book/src/guides/manifests.md`.
#[cfg(all(doctest, feature = "clap"))]
#[doc = include_str!("../../../docs/book/src/guides/manifests.md")]
struct ManifestsGuide;

/// Compiles the examples of the README, including the initialization of the log.
#[cfg(all(doctest, feature = "logging"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
