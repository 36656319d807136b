//! Kubernetes controllers in Rust, with the concepts of Go's `controller-runtime`.
//!
//! ```
//! use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, Reconciler, manager::Options, reconcile};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! struct PrintNames;
//!
//! impl Reconciler for PrintNames {
//!     type Request = ObjectKey<ConfigMap>;
//!
//!     async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, reconcile::Error> {
//!         println!("{key}");
//!         Ok(Action::done())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = kube_envtest::Environment::builder().start().await?;
//! let manager = Manager::new(env.client(), Options::new("print-names")); // an operator: Manager::from_config
//! Builder::managed_by(&manager).for_kind::<ConfigMap>().complete(PrintNames)?;
//!
//! let ready = manager.ready();
//! manager.run(async { ready.await.unwrap_or(()) }).await?; // a real one: run_until_signal()
//! # Ok(())
//! # }
//! ```
//!
//! # Mental model
//!
//! A change of an object becomes an [`Event`] with the old and the new state ([`Lazy`]: decoded only if somebody asks).
//! A [`Predicate`] lets it pass or not. An [`EventHandler`] turns it into requests: the object's own [`ObjectKey`], its
//! owner's, or whatever a function makes of it. The [`workqueue`] keeps each request once, and hands it to a worker,
//! which calls the [`Reconciler`]. That reads from caches ([`Cached`]), writes through the [`Client`], and says with an
//! [`Action`] or an error what comes next.
//!
//! A [`Manager`] holds the caches and controllers and runs them; a [`Builder`] says what leads to what.
//!
//! # Modules, in reading order
//!
//! [`reconcile`] (what you implement), [`source`], [`predicate`] and [`handler`] (what leads to a reconcile), [`controller`]
//! and [`manager`] (options and lifecycle), [`cache`] and [`client`] (what is read and written), [`leader_election`],
//! [`metrics`], [`health`], [`workqueue`].
//!
//! # Features
//!
//! All are off by default:
//!
//! - `clap` gives `manager::Flags`, the flags of an operator;
//! - `http2` gives `metrics::ServerOptions::enable_http2`, and is not needed to talk to the API server;
//! - `logging` gives the module `logging`: levels, a filter and JSON for the log of an operator, and flags for them;
//! - `opentelemetry` gives the module `telemetry`, a layer that exports the spans of reconciles, and links the attempts of a
//!   request.
//!
//! With feature `gzip` of `kube`, which is your binary's choice, answers of more than 128 KiB come compressed, and are read while
//! they come; watches never do. It pays where the API server is far away: within a cluster it costs both sides more time than the
//! network saves, which is why it is not turned on here as it is in client-go.
//!
//! # Logs and traces
//!
//! The feature `logging` sets up the log of an operator. A conflict, or a write that is refused because the process does not hold
//! the lease, is logged at `DEBUG` for the first eight attempts in a row, because a retry usually mends it, and at `ERROR` from
//! the ninth on.
//!
//! Everything is said through `tracing`: each reconcile is a span with controller, request, `reconcileID` and attempt, under
//! the names that controller-runtime's log fields have. The feature `opentelemetry` exports them: see `docs/opentelemetry.md`.
//!
//! # Cancellation
//!
//! Everything here is a future that may be dropped. Dropping [`Manager::run`] stops its controllers where they stand,
//! as a crash would, and leaves no task behind. A reconcile is dropped at an `.await` when it exceeds its timeout or does
//! not finish within the manager's shutdown.
//!
//! # Defaults
//!
//! | what | value |
//! |---|---|
//! | concurrent reconciles of a controller | 1 |
//! | back-off of a failing request | 5 ms, doubling to 1000 s |
//! | retries of all requests of a controller | 100 at once, then 10 a second |
//! | timeout of a reconcile | none |
//! | a reconcile that panics | fails as others do |
//! | leader election; servers of metrics and probes | none |
//! | wait for caches at the start, and for each source of a controller | 2 minutes |
//! | sources of a controller before its process leads | none run |
//! | cached objects kept decoded | those read more than once between two changes, 64 MiB as estimated; all but the latest are held compressed |
//! | resyncs, which tell handlers again of what is there | none |
//! | wait for running reconciles at the stop | 30 seconds |
//!
//! # What is not here
//!
//! Of controller-runtime for Go:
//!
//! - webhooks and conversion, with their server, flags and metrics;
//! - profiles (`PprofBindAddress`), which an extra handler of the metrics server may serve;
//! - a cache of your own making (`NewCache`), and `GetControllerOptions`: the manager's choices hold for each controller
//!   that makes none;
//! - locks other than leases (`LeaderElectionResourceLockInterface`);
//! - a scheme and a REST mapper: kinds are types, or are found by [`Client::discover`];
//! - a fake client: `kube-envtest` has a server;
//! - the flags `--master` and, but for the level and the encoder, those of zap.
//!
//! [`cache`], [`client`] and [`metrics`] say what they lack. Beyond Go's, there is nothing that finds clusters
//! ([`Manager::add_cluster`] adds one) or shares objects out among processes.
//!
//! `k8s-openapi` needs a version feature (`v1_36`, say), which your binary chooses, as it chooses the TLS stack of `kube`.

mod builder;
pub mod cache;
mod cert;
pub mod client;
mod conditions;
pub mod controller;
mod enqueue;
mod event;
pub mod handler;
pub mod health;
mod host;
mod http_server;
mod json_path;
pub mod leader_election;
#[cfg(feature = "logging")]
pub mod logging;
pub mod manager;
pub mod metrics;
mod object;
mod pace;
pub mod predicate;
pub mod reconcile;
mod recorder;
mod referent;
pub mod source;
#[cfg(feature = "opentelemetry")]
pub mod telemetry;

pub use kube_workqueue as workqueue;

pub use self::{
    builder::{Builder, ControllerBuilder, Of, OfNone},
    cache::{Cached, DecodeError, Lazy, ReadError},
    client::{
        Client, Error as ClientError, OwnerError, has_finalizer, is_controlled_by, set_controller_reference,
    },
    conditions::set_condition,
    enqueue::Enqueue,
    event::{Event, MetaEvent},
    handler::{EventHandler, ForObject, ForOwner, MapFn, MapMeta},
    manager::Manager,
    object::{DynamicNamespace, KindInfo, NamespaceOf, Object, ObjectKey, OwnableBy, Scope, StaticObject},
    predicate::Predicate,
    reconcile::{Action, Context, ObjectReconciler, Reconciler},
    recorder::{Recorder, Report},
    referent::{OfKind, Referent},
    source::{Kind, Owns, Source},
};

/// What becomes of spans compiles.
#[cfg(all(doctest, feature = "opentelemetry"))]
#[doc = include_str!("../../../docs/opentelemetry.md")]
struct OpenTelemetry;

/// What becomes what compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-kube-rs.md")]
struct FromKubeRs;

/// What becomes what compiles, the flags included.
#[cfg(all(doctest, feature = "clap"))]
#[doc = include_str!("../../../docs/from-controller-runtime.md")]
struct FromControllerRuntime;

/// The README's controller compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
